//! Writing captures to disk, off the engine's thread.
