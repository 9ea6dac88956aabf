//! Owns: the connections to a cluster's brokers, and who leads which partition.
//! Does not: wait between tries.

use std::collections::HashMap;

use crate::brokers::Brokers;
use crate::connection::Connection;
use crate::failure::{Code, Failure};
use crate::messages::{self, Api, Metadata};
use crate::security::Security;

/// A topic that is read or written has no more.
const MOST_PARTITIONS: usize = 4096;

/// A cluster.
pub(crate) struct Cluster {
    brokers: Brokers,
    security: Security,
    addresses: HashMap<i32, (String, u16)>,
    connections: HashMap<i32, Connection>,
}

/// Of a topic, who leads each partition; `None`: nobody at the moment.
pub(crate) type Leaders = Vec<Option<i32>>;

impl Cluster {
    pub(crate) fn new(brokers: Brokers, security: Security) -> Self {
        Self { brokers, security, addresses: HashMap::new(), connections: HashMap::new() }
    }

    /// Asks who leads the partitions of these topics, in their order.
    pub(crate) fn leaders(&mut self, topics: &[String]) -> Result<Vec<Leaders>, Failure> {
        let metadata = self.ask_any(topics)?;
        self.addresses = metadata.brokers.into_iter().map(|(node, host, port)| (node, (host, port))).collect();
        let addresses = &self.addresses;
        self.connections.retain(|node, _| addresses.contains_key(node));
        let found = topics.iter().map(|topic| {
            let it = metadata.topics.iter().find(|(_, name, _)| name == topic);
            let (code, _, partitions) = it.ok_or(Failure::Refused(Code::UNKNOWN_TOPIC))?;
            Code::check(*code).map_err(Failure::Refused)?;
            if partitions.len() > MOST_PARTITIONS {
                return Err(Failure::Other(format!("it has more than {MOST_PARTITIONS} partitions")));
            }
            let mut leaders = vec![None; partitions.len()];
            for (partition, leader) in partitions {
                if let Some(place) = usize::try_from(*partition).ok().and_then(|number| leaders.get_mut(number)) {
                    *place = Some(*leader).filter(|leader| *leader >= 0);
                }
            }
            if leaders.is_empty() { Err(Failure::Refused(Code::UNKNOWN_TOPIC)) } else { Ok(leaders) }
        });
        found.collect()
    }

    /// Of who is known first, then of those that were named.
    fn ask_any(&mut self, topics: &[String]) -> Result<Metadata, Failure> {
        let body = messages::metadata(topics);
        for node in self.connections.keys().copied().collect::<Vec<_>>() {
            if let Ok(answer) = self.ask(node, Api::METADATA, &body) {
                return Ok(messages::read_metadata(&answer)?);
            }
        }
        let known: Vec<(String, u16)> = self.brokers.0.iter().chain(self.addresses.values()).cloned().collect();
        let mut last = Failure::Other("no broker is named".into());
        for address in known {
            let asked = Connection::open(&address, &self.security).and_then(|mut it| it.ask(Api::METADATA, &body));
            match asked {
                Ok(answer) => return Ok(messages::read_metadata(&answer)?),
                Err(failure) => last = failure,
            }
        }
        Err(last)
    }

    /// A request to this broker, and its answer.
    pub(crate) fn ask(&mut self, node: i32, api: Api, body: &[u8]) -> Result<Vec<u8>, Failure> {
        let number = self.send(node, api, body)?;
        self.receive(node, number)
    }

    /// Sends a request; a connection that breaks is made anew with the next one.
    pub(crate) fn send(&mut self, node: i32, api: Api, body: &[u8]) -> Result<i32, Failure> {
        if !self.connections.contains_key(&node) {
            let address = self.addresses.get(&node).ok_or_else(|| Failure::Other("a broker is not known".into()))?;
            self.connections.insert(node, Connection::open(address, &self.security)?);
        }
        self.with(node, |connection| connection.send(api, body))
    }

    /// The answer to a request.
    pub(crate) fn receive(&mut self, node: i32, number: i32) -> Result<Vec<u8>, Failure> {
        self.with(node, |connection| connection.receive(number))
    }

    fn with<T>(&mut self, node: i32, work: impl FnOnce(&mut Connection) -> Result<T, Failure>) -> Result<T, Failure> {
        let connection =
            self.connections.get_mut(&node).ok_or_else(|| Failure::Other("the connection is gone".into()))?;
        let done = work(connection);
        if done.is_err() {
            self.connections.remove(&node);
        }
        done
    }
}
