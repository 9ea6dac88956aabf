//! What is deleted when: by number, by an age that no clock can turn back, and by size.
//!
//! Owns the store's age clock and its marks. Stamps tell users when something came; they do not decide what is kept, as the wall clock
//! that gave them may have been wrong. Notifications are numbered as they come: a mark says which number was the latest at which age,
//! so all up to it are at least as old. The age clock runs with the monotonic one; across restarts it goes on by what the wall clock
//! is later than it ever was, and stands still if it is earlier. So a clock that is set, forward or back, while a station runs neither
//! stops the deleting nor deletes anything early; one that is wrong when a station starts makes rows older only if it is ahead.

use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, params};

use crate::act::Act;

/// Rows deleted in one transaction.
pub(super) const PRUNE_ROWS: i64 = 20_000;
/// The same while the disk is full: what is deleted is written to the log first, which may grow by the reserve alone.
pub(super) const FEW_ROWS: i64 = 200;
/// Marks for the time that is kept: so much of it something may stay too long.
const MARKS: u64 = 100;
/// Between marks when nothing is deleted by age, for whoever asks for that later.
const MARK_EVERY: Duration = Duration::from_secs(3600);

/// What is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Retention {
    /// Notifications, and cleared alarms without a later one, go when they are older.
    pub age: Option<Duration>,
    /// The oldest notifications go when the database is larger than this, in bytes.
    pub bytes: Option<u64>,
}

/// Both clocks, read at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Now {
    /// Nanoseconds since 1970; may be wrong.
    pub wall_ns: u64,
    /// Nanoseconds since any start; only goes on.
    pub monotonic_ns: u64,
}

/// The store's own time, as of the last look. It begins as nanoseconds since 1970.
#[derive(Debug, Clone, Copy)]
pub(super) struct AgeClock {
    age_ns: u64,
    /// The latest that the wall clock ever was, or would be now.
    wall_ns: u64,
    monotonic_ns: u64,
    marked_ns: u64,
    /// The latest number, and the age at which it was seen first, while no mark of it can be written.
    seen: Option<(u64, u64)>,
}

impl AgeClock {
    /// Goes on from what the store remembers.
    fn load(connection: &Connection, now: Now) -> rusqlite::Result<Self> {
        let kept: Option<String> =
            connection.query_row("SELECT value FROM meta WHERE name = 'age_clock'", [], |row| row.get(0)).optional()?;
        let kept = kept.as_deref().and_then(|text| text.split_once(' '));
        let (age_ns, wall_ns) = kept
            .and_then(|(age, wall)| Some((age.parse().ok()?, wall.parse().ok()?)))
            .unwrap_or((now.wall_ns, now.wall_ns));
        let away_ns = now.wall_ns.saturating_sub(wall_ns);
        Ok(Self {
            age_ns: age_ns + away_ns,
            wall_ns: wall_ns + away_ns,
            monotonic_ns: now.monotonic_ns,
            marked_ns: 0,
            seen: None,
        })
    }

    fn advance(&mut self, now: Now) {
        let passed_ns = now.monotonic_ns.saturating_sub(self.monotonic_ns);
        self.monotonic_ns = now.monotonic_ns;
        self.age_ns += passed_ns;
        self.wall_ns = (self.wall_ns + passed_ns).max(now.wall_ns);
    }

    /// Remembers the latest number at this age.
    fn mark(&mut self, connection: &Connection, last_id: Option<u64>) -> rusqlite::Result<()> {
        self.marked_ns = self.age_ns;
        let kept = format!("{} {}", self.age_ns, self.wall_ns);
        connection.execute("INSERT OR REPLACE INTO meta VALUES ('age_clock', ?)", [kept])?;
        for (id, age_ns) in self.seen.into_iter().chain(last_id.map(|id| (id, self.age_ns))) {
            // The first mark of a number is the one that counts.
            connection.execute("INSERT OR IGNORE INTO mark VALUES (?, ?)", params![id, age_ns])?;
        }
        Ok(())
    }
}

/// Deletes what is too old or too much, at most so many rows; whether there may be more to do.
pub(super) fn prune(
    connection: &Connection,
    clock: &mut Option<AgeClock>,
    retention: Retention,
    now: Now,
    rows: i64,
) -> rusqlite::Result<bool> {
    let transaction = connection.unchecked_transaction()?;
    let (oldest, last_id): (Option<u64>, Option<u64>) = connection.query_row(
        "SELECT (SELECT min(id) FROM notification), (SELECT max(id) FROM notification)",
        [],
        |row| Ok((row.get(0)?, row.get(1)?)),
    )?;
    let clock = match clock {
        Some(clock) => clock,
        None => {
            let mut loaded = AgeClock::load(connection, now)?;
            first_marks(connection, &mut loaded, retention, now)?;
            clock.insert(loaded)
        }
    };
    clock.advance(now);
    let every = retention.age.map_or(MARK_EVERY, |age| age / MARKS as u32);
    if clock.age_ns - clock.marked_ns >= every.as_nanos() as u64 || clock.seen.is_some() {
        clock.mark(connection, last_id)?;
    }
    let mut deleted = 0;
    if let Some(age) = retention.age {
        let before = clock.age_ns.saturating_sub(age.as_nanos() as u64);
        let up_to: Option<u64> =
            connection.query_row("SELECT max(id) FROM mark WHERE age_ns <= ?", [before], |row| row.get(0))?;
        if let Some(up_to) = up_to {
            if oldest.is_some_and(|oldest| oldest <= up_to) {
                remember(connection, last_id)?;
            }
            deleted += connection.execute(
                "DELETE FROM notification WHERE id IN (SELECT id FROM notification WHERE id <= ?1 ORDER BY id LIMIT ?2)",
                params![up_to, rows],
            )?;
            connection.execute(
                "DELETE FROM history WHERE alarm IN (SELECT id FROM alarm WHERE cleared AND last_notification <= ?)",
                [up_to],
            )?;
            connection.execute("DELETE FROM alarm WHERE cleared AND last_notification <= ?", [up_to])?;
            connection.execute("DELETE FROM mark WHERE id < ?", [up_to])?;
        }
    }
    if let Some(most) = retention.bytes
        && used_bytes(connection)? > most
    {
        remember(connection, last_id)?;
        deleted += connection.execute(
            "DELETE FROM notification WHERE id IN (SELECT id FROM notification ORDER BY id LIMIT ?)",
            [rows],
        )?;
        // What operators wrote stays with its alarm.
        connection.execute(
            "DELETE FROM history WHERE id IN (SELECT id FROM history WHERE act = ? AND
             at_ns < ifnull((SELECT at_ns FROM notification ORDER BY id LIMIT 1), at_ns + 1) ORDER BY id LIMIT ?)",
            params![Act::Expired.code(), rows],
        )?;
    }
    transaction.commit()?;
    clock.seen = None;
    if deleted > 0 {
        let mut vacuum = connection.prepare_cached("PRAGMA incremental_vacuum(4096)")?;
        let mut steps = vacuum.query([])?;
        while steps.next()?.is_some() {}
    }
    Ok(deleted as i64 >= rows)
}

/// Whether [`prune`] would delete notifications, if it could write; before its first look it may. Writes nothing.
pub(super) fn is_due(
    connection: &Connection,
    clock: &mut Option<AgeClock>,
    retention: Retention,
    now: Now,
) -> rusqlite::Result<bool> {
    let last_id: Option<u64> = connection.query_row("SELECT max(id) FROM notification", [], |row| row.get(0))?;
    let Some(last_id) = last_id.filter(|_| retention != Retention::default()) else { return Ok(false) };
    let Some(clock) = clock else { return Ok(true) };
    clock.advance(now);
    if clock.seen.is_none_or(|(id, _)| id != last_id) {
        clock.seen = Some((last_id, clock.age_ns));
    }
    if let Some(most) = retention.bytes
        && used_bytes(connection)? > most
    {
        return Ok(true);
    }
    let Some(age) = retention.age else { return Ok(false) };
    let before = clock.age_ns.saturating_sub(age.as_nanos() as u64);
    let marked: Option<u64> =
        connection.query_row("SELECT max(id) FROM mark WHERE age_ns <= ?", [before], |row| row.get(0))?;
    let seen = clock.seen.filter(|&(_, age_ns)| age_ns <= before).map(|(id, _)| id);
    let Some(up_to) = marked.max(seen) else { return Ok(false) };
    connection.query_row("SELECT EXISTS (SELECT 1 FROM notification WHERE id <= ?)", [up_to], |row| row.get(0))
}

/// The numbers of deleted notifications are not used again.
fn remember(connection: &Connection, last_id: Option<u64>) -> rusqlite::Result<()> {
    let Some(last_id) = last_id else { return Ok(()) };
    connection.execute("INSERT OR REPLACE INTO meta VALUES ('last_id', ?)", [last_id.to_string()]).map(drop)
}

/// In a store that has no marks yet, stamps are all there is: the oldest rows that all have old ones are old. Of the others nothing is
/// certain but that they are there now.
fn first_marks(connection: &Connection, clock: &mut AgeClock, retention: Retention, now: Now) -> rusqlite::Result<()> {
    let has_marks: bool = connection.query_row("SELECT EXISTS (SELECT 1 FROM mark)", [], |row| row.get(0))?;
    let Some(age) = retention.age.filter(|_| !has_marks) else { return Ok(()) };
    let age_ns = age.as_nanos() as u64;
    let before = now.wall_ns.saturating_sub(age_ns);
    let young: Option<u64> = connection
        .query_row("SELECT id FROM notification WHERE at_ns >= ? ORDER BY id LIMIT 1", [before], |row| row.get(0))
        .optional()?;
    let old: Option<u64> = connection.query_row(
        "SELECT max(id) FROM notification WHERE id < ?",
        [young.unwrap_or(i64::MAX as u64)],
        |row| row.get(0),
    )?;
    if let Some(old) = old {
        connection.execute("INSERT INTO mark VALUES (?, ?)", params![old, clock.age_ns.saturating_sub(age_ns)])?;
    }
    Ok(())
}

/// Bytes of the database that are in use.
pub(super) fn used_bytes(connection: &Connection) -> rusqlite::Result<u64> {
    let number = |name: &str| connection.pragma_query_value(None, name, |row| row.get::<_, u64>(0));
    Ok((number("page_count")? - number("freelist_count")?) * number("page_size")?)
}

#[cfg(test)]
mod tests {
    use super::super::{Job, Kind, Row, Store};
    use super::*;
    use crate::alarm::Judgement;

    const S: u64 = 1_000_000_000;
    /// Some day.
    const DAY: u64 = 1_800_000_000 * S;
    const AGE: Retention = Retention { age: Some(Duration::from_secs(100)), bytes: None };

    /// A store under two clocks that the test sets.
    struct World {
        store: Option<Store>,
        folder: tempfile::TempDir,
        now: Now,
        next: u64,
    }

    impl World {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let store = Store::open(folder.path()).unwrap();
            Self { store: Some(store), folder, now: Now { wall_ns: DAY, monotonic_ns: 5 * S }, next: 1 }
        }

        /// Notifications with the wall clock's stamp.
        fn receive(&mut self, count: u64) {
            let mut job = Job::default();
            let raw = job.copy(&[]);
            for id in self.next..self.next + count {
                job.rows.push(Row {
                    id,
                    at_ns: self.now.wall_ns,
                    source: "192.0.2.1:162".parse().unwrap(),
                    kind: Kind::V2c,
                    alarm: None,
                    judgement: Judgement::Repeated,
                    raw: raw.clone(),
                    decrypted: None,
                });
            }
            self.next += count;
            self.store().write(&job).unwrap();
        }

        /// Time passes, with a look at each second.
        fn pass(&mut self, seconds: u64) {
            for _ in 0..seconds {
                self.now.wall_ns += S;
                self.now.monotonic_ns += S;
                let now = self.now;
                while self.store().prune(AGE, now).unwrap() {}
            }
        }

        fn set_wall(&mut self, wall_ns: u64) {
            self.now.wall_ns = wall_ns;
        }

        fn restart(&mut self, away_s: u64) {
            self.now = Now { wall_ns: self.now.wall_ns + away_s * S, monotonic_ns: 7 * S };
            // The lock goes before it is asked for again.
            self.store = None;
            self.store = Some(Store::open(self.folder.path()).unwrap());
        }

        fn store(&mut self) -> &mut Store {
            self.store.as_mut().unwrap()
        }

        fn oldest(&mut self) -> Option<u64> {
            self.store().notifications(0, 1).unwrap().first().map(|row| row.id)
        }
    }

    #[test]
    fn rows_go_at_their_age_and_not_before() {
        let mut world = World::new();
        world.receive(10);
        world.pass(50);
        world.receive(10);
        world.pass(48);
        assert_eq!(world.oldest(), Some(1));
        world.pass(5);
        assert_eq!(world.oldest(), Some(11));
        world.restart(30);
        world.pass(10);
        assert_eq!(world.oldest(), Some(11), "93 s old");
        world.pass(12);
        assert_eq!((world.oldest(), world.store().last_id().unwrap()), (None, 20));
    }

    #[test]
    fn a_clock_that_told_a_future_stops_nothing() {
        let mut world = World::new();
        world.set_wall(DAY + 1_000_000 * S);
        // More than one transaction deletes.
        world.receive(50_000);
        world.pass(20);
        world.set_wall(DAY);
        world.receive(10);
        world.pass(79);
        assert_eq!(world.oldest(), Some(1));
        world.pass(3);
        assert_eq!(world.oldest(), Some(50_001), "the stamps are far ahead, the rows are old");
        world.restart(10);
        world.pass(22);
        assert_eq!(world.oldest(), None);
    }

    #[test]
    fn a_clock_that_went_back_makes_nothing_old() {
        let mut world = World::new();
        world.receive(10);
        world.pass(10);
        // As at a start without a clock of its own, until the network tells the time.
        world.restart(0);
        world.set_wall(S);
        world.receive(10);
        world.pass(10);
        world.restart(0);
        world.set_wall(DAY + 25 * S);
        world.receive(10);
        world.pass(70);
        assert_eq!(world.oldest(), Some(1));
        world.pass(6);
        assert_eq!(world.oldest(), Some(11), "the first ones are 101 s old");
        world.pass(9);
        assert_eq!(world.oldest(), Some(21));
    }

    #[test]
    fn a_store_without_marks_goes_by_stamps_where_all_agree() {
        let mut world = World::new();
        world.receive(10);
        world.set_wall(DAY + 1000 * S);
        world.receive(10);
        world.set_wall(DAY + 500 * S);
        world.receive(10);
        world.set_wall(DAY + 1050 * S);
        world.pass(1);
        assert_eq!(world.oldest(), Some(11));
        world.pass(98);
        assert_eq!(world.oldest(), Some(11), "stamps that contradict each other prove nothing");
        world.pass(4);
        assert_eq!(world.oldest(), None);
    }
}
