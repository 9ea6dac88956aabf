//! A benchmark that was cut off goes on.
//!
//! Owns what of a book is kept: whole studies. A study's rounds are interleaved so that a slow hour falls on all of its receivers, which
//! half a study made on another day would undo.

use std::path::Path;

use ringtap::{Error, Result};

use crate::book::{Book, Extent, Made, Whole};

/// What is missing after a signal; with " of STUDY" behind it, after that one failed.
pub(crate) const THE_REST: &str = "the rest";

impl Book {
    /// How much is in it.
    pub(crate) fn extent(&self) -> Extent {
        Extent { samples: self.samples.len(), findings: self.findings.len(), missing: self.missing.len() }
    }

    /// Begins the studies of a command.
    pub(crate) fn begin(&mut self) {
        self.whole = Some(Whole { before: self.extent(), studies: Vec::new() });
    }

    /// Whether all runs of this study have been made.
    pub(crate) fn has(&self, study: &str) -> bool {
        self.whole.iter().flat_map(|whole| &whole.studies).any(|made| made.name == study)
    }

    /// All runs of this study have been made, since there was so much in the book.
    pub(crate) fn end(&mut self, study: &str, from: Extent) {
        let made = Made { name: study.to_owned(), from, to: self.extent() };
        self.whole.get_or_insert_default().studies.push(made);
    }

    /// Takes out what studies that were cut off or failed have left: they are made once more from their beginning.
    ///
    /// # Errors
    /// It was another command that was cut off, or the book does not say what is whole.
    pub(crate) fn resume(&mut self, command: &str, folder: &Path) -> Result<()> {
        let refused = |cause: String| {
            Err(Error::failed("resume", folder.join("bench.json").display().to_string(), cause)
                .way_out("give the same options and --resume, or use --add to put other runs beside"))
        };
        let begun = self.environment.command.lines().last().unwrap_or_default();
        if begun != command {
            return refused(format!("it was begun by `{begun}`"));
        }
        let Some(whole) = self.whole.take() else {
            return refused("it does not say which of its studies are whole".to_owned());
        };
        let all = Self {
            samples: std::mem::take(&mut self.samples),
            findings: std::mem::take(&mut self.findings),
            missing: std::mem::take(&mut self.missing),
            ..Self::default()
        };
        self.keep(&all, Extent::default(), whole.before);
        self.begin();
        for Made { name, from, to } in whole.studies {
            let at = self.extent();
            self.keep(&all, from, to);
            self.end(&name, at);
        }
        Ok(())
    }

    /// Adds what is between these in another one; a file may say anything.
    fn keep(&mut self, all: &Self, from: Extent, to: Extent) {
        fn between<T>(list: &[T], from: usize, to: usize) -> &[T] {
            list.get(from..to.min(list.len())).unwrap_or_default()
        }
        self.samples.extend_from_slice(between(&all.samples, from.samples, to.samples));
        self.findings.extend_from_slice(between(&all.findings, from.findings, to.findings));
        self.missing.extend_from_slice(between(&all.missing, from.missing, to.missing));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::book::{Environment, Missing, Sample};

    fn book() -> Book {
        Book {
            environment: Environment { command: "ringtap bench --all".to_owned(), ..Environment::default() },
            ..Book::default()
        }
    }

    fn add(book: &mut Book, studies: &[&str]) {
        book.samples.extend(studies.iter().map(|study| Sample { study: (*study).to_owned(), ..Sample::default() }));
    }

    fn miss(book: &mut Book, what: &str) {
        book.missing.push(Missing { what: what.to_owned(), why: String::new() });
    }

    fn studies(book: &Book) -> Vec<&str> {
        book.samples.iter().map(|sample| sample.study.as_str()).collect()
    }

    #[test]
    fn what_a_study_left_that_failed_or_was_cut_off_is_taken_out_and_no_more() {
        let mut book = book();
        add(&mut book, &["earlier"]);
        miss(&mut book, "the rest of earlier");
        book.begin();
        let from = book.extent();
        add(&mut book, &["idle", "idle"]);
        miss(&mut book, "busy (host), idle");
        book.end("idle", from);
        add(&mut book, &["failed"]);
        miss(&mut book, "the rest of failed");
        let from = book.extent();
        add(&mut book, &["sizes"]);
        book.end("sizes", from);
        add(&mut book, &["cut"]);
        // It is tried again, too.
        miss(&mut book, "hybrid 1ms (nic), cut");
        for _ in 0..2 {
            book.resume("ringtap bench --all", Path::new("x")).unwrap();
            assert_eq!(studies(&book), ["earlier", "idle", "idle", "sizes"]);
            let missing: Vec<&str> = book.missing.iter().map(|missing| missing.what.as_str()).collect();
            assert_eq!(missing, ["the rest of earlier", "busy (host), idle"]);
            assert!(book.has("idle") && book.has("sizes") && !book.has("failed") && !book.has("cut"));
        }
    }

    #[test]
    fn only_the_command_that_was_cut_off_goes_on_and_nothing_is_lost() {
        let mut other = book();
        other.begin();
        add(&mut other, &["idle"]);
        let error = other.resume("ringtap bench --quick", Path::new("x")).unwrap_err().to_string();
        assert!(error.contains("it was begun by `ringtap bench --all`") && error.contains("--add"), "{error}");
        // Of before there was this.
        let mut old = book();
        add(&mut old, &["idle"]);
        let error = old.resume("ringtap bench --all", Path::new("x")).unwrap_err().to_string();
        assert!(error.contains("which of its studies are whole"), "{error}");
        assert_eq!((studies(&other), studies(&old)), (vec!["idle"], vec!["idle"]));
    }
}
