//! Owns: what of transactions goes to records and alerts, of all protocols.
//! Does not: read what they say.

use super::evaluate::Context;
use super::{Detector, Track};
use crate::alert::{Content, FileView, FlowView, Sink, Transaction};
use crate::protocol::{App, Values};

impl Detector {
    /// Tells the files and transactions that are over by what was read last.
    pub(super) fn tell_transactions(&mut self, (index, from): (usize, usize), now_ns: u64, sink: &mut impl Sink) {
        let Self { track: Track { flows, .. }, work, .. } = self;
        let values = &work.values;
        let Some((said, _)) = values.told().next() else { return };
        let Some(app) = flows.get(index).app_of(from) else { return };
        if values.file_is_over {
            let flow = flows.get(index);
            if let Some(file) = file(values) {
                sink.file(&file, &of(app, flow.transactions, said), &FlowView::new(flow), now_ns);
            }
        }
        for (said, _) in values.told().filter(|(_, is_over)| *is_over) {
            let id = flows.get(index).transactions;
            flows.get_mut(index).transactions += 1;
            sink.transaction(&of(app, id, said), &FlowView::new(flows.get(index)), now_ns);
        }
    }
}

fn of(app: App, id: u32, said: [&[u8]; 2]) -> Transaction<'_> {
    Transaction { app: app.name(), id, said, contents: [Content::default(); 2] }
}

/// The file that a message brings.
pub(super) fn file(values: &Values) -> Option<FileView<'_>> {
    let (_, name) = values.iter().find(|(buffer, _)| buffer.is_file_name())?;
    let command = values.iter().find(|(buffer, _)| buffer.is_file_command()).map(|(_, command)| command);
    Some(FileView { name, is_whole: values.file_is_whole, size: values.file_size, command })
}

/// The transaction that an alert belongs to, as far as it is known; `new` are bytes of a stream that were not read yet.
pub(super) fn at_hand<'w>(
    track: &Track,
    context: &Context<'_>,
    values: &'w Values,
    new: &[u8],
    scratch: &'w mut Vec<u8>,
) -> Option<Transaction<'w>> {
    let (index, from) = context.flow?;
    let flow = track.flows.get(index);
    let app = flow.app_of(from)?;
    if let Some(key) = context.message {
        return Some(track.http.message_at_hand(key, new, scratch));
    }
    if app.has_transactions() {
        return track.http.at_hand(index, from, new, scratch);
    }
    values.told().next().map(|(said, _)| of(app, flow.transactions, said))
}
