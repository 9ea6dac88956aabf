//! Owns: which bytes of a transaction's heads go to alerts and records.
//! Does not: read them (`record.rs` does, elsewhere).

use super::stream::{Http, MAX_HEAD, MessageKey};
use super::transaction::{Message, Phase};
use crate::alert::{Content, Transaction};

/// The protocol's name in records.
const NAME: &str = super::DEFINITION.name;

impl Http {
    /// A transaction; its heads go into `scratch`.
    pub(crate) fn transaction<'s>(&self, number: u32, scratch: &'s mut Vec<u8>) -> Transaction<'s> {
        let transaction = self.pools.view(number);
        let middle = self.heads([Some(number); 2], scratch);
        let content = |message: &Message| Content {
            sent: message.sent_len,
            decoded: message.decoded_len,
            is_whole: message.is_complete && message.has_head,
            is_cut: message.is_full,
            has_gap: message.has_gap,
        };
        let [request, response] = &transaction.messages;
        let (first, second) = scratch.split_at(middle);
        Transaction {
            app: NAME,
            id: transaction.id,
            said: [first, second],
            contents: [content(request), content(response)],
        }
    }

    /// The transaction that new bytes of a side belong to, which were not read yet: what is known of it, and these.
    pub(crate) fn at_hand<'s>(
        &self,
        flow: usize,
        side: usize,
        new: &[u8],
        scratch: &'s mut Vec<u8>,
    ) -> Option<Transaction<'s>> {
        let (mut phase, mut own, mut numbers, mut id) = (Phase::Idle, None, [None; 2], 0);
        if let Some(number) = self.pools.find(flow) {
            let connection = self.pools.connection_view(number);
            (phase, own) = (connection.sides[side].phase, connection.sides[side].transaction);
            id = connection.begun();
            if matches!(phase, Phase::Idle | Phase::After) && side == 1 {
                own = self.pools.waiting(number);
            }
        }
        let begins = matches!(phase, Phase::Idle | Phase::After);
        match phase {
            Phase::Lost | Phase::Tunnel => return None,
            _ if begins && !super::begins_message(new) => return None,
            _ if begins && side == 0 => {}
            _ => {
                numbers[0] = own;
                numbers[1] = own.filter(|_| !begins);
                id = own.map_or(id, |own| self.pools.view(own).id);
            }
        }
        let new = if begins || matches!(phase, Phase::FirstLine | Phase::Fields) { new } else { &[] };
        Some(Transaction {
            app: NAME,
            id,
            said: self.heads_and(numbers, (side, new), scratch),
            contents: Default::default(),
        })
    }

    /// The transaction of a message that has come to a stage; where that is before its fields are read, `new` may have them.
    pub(crate) fn message_at_hand<'s>(&self, key: MessageKey, new: &[u8], scratch: &'s mut Vec<u8>) -> Transaction<'s> {
        let numbers = [Some(key.transaction); 2];
        let has_head = self.pools.view(key.transaction).messages[key.side].has_head;
        if has_head || new.is_empty() {
            return self.transaction(key.transaction, scratch);
        }
        let id = self.pools.view(key.transaction).id;
        Transaction {
            app: NAME,
            id,
            said: self.heads_and(numbers, (key.side, new), scratch),
            contents: Default::default(),
        }
    }

    /// The heads of a request and a response, with bytes of one side behind its own.
    fn heads_and<'s>(
        &self,
        numbers: [Option<u32>; 2],
        (side, new): (usize, &[u8]),
        scratch: &'s mut Vec<u8>,
    ) -> [&'s [u8]; 2] {
        let mut middle = self.heads(numbers, scratch);
        let at = if side == 0 { middle } else { scratch.len() };
        let room = (scratch.capacity() - scratch.len()).min(MAX_HEAD);
        let new = &new[..new.len().min(room)];
        scratch.extend_from_slice(new);
        scratch[at..].rotate_right(new.len());
        middle += if side == 0 { new.len() } else { 0 };
        let (first, second) = scratch.split_at(middle);
        [first, second]
    }

    /// Puts the heads of a request and a response into `scratch`; where the second begins.
    fn heads(&self, numbers: [Option<u32>; 2], scratch: &mut Vec<u8>) -> usize {
        scratch.clear();
        let mut middle = 0;
        for (side, number) in numbers.into_iter().enumerate() {
            middle = if side == 1 { scratch.len() } else { middle };
            if let Some(number) = number {
                self.pools.blocks.copy(&self.pools.view(number).messages[side].head, scratch);
            }
        }
        middle
    }
}
