//! Announcements as one JSON array to whoever listens.

use ringtap_output::http::{Http, Posted};

use super::Receiver;

/// A receiver of announcements as they are.
pub(crate) struct Webhook(pub(crate) Http);

impl Receiver for Webhook {
    fn name(&self) -> &'static str {
        "webhook"
    }

    fn place(&self) -> String {
        self.0.name()
    }

    fn post(&mut self, batch: &[(u64, String)]) -> Posted {
        let numbered: Vec<String> = batch.iter().map(|(number, text)| numbered(*number, text)).collect();
        self.0.post(&format!("[{}]", numbered.join(",")))
    }

    fn rest(&mut self) -> Option<Posted> {
        None
    }
}

/// A JSON object with its number as one more field: who gets it twice knows it by that.
fn numbered(number: u64, text: &str) -> String {
    match text.strip_suffix('}') {
        Some(open) if open.len() > 1 => format!("{open},\"announcement\":{number}}}"),
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::numbered;

    #[test]
    fn an_announcement_has_its_number_beside_what_it_says() {
        assert_eq!(numbered(7, "{\"id\":3}"), "{\"id\":3,\"announcement\":7}");
        assert_eq!(numbered(7, "{}"), "{}");
    }
}
