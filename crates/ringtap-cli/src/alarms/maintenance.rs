//! `ringtap alarms maintenance`: windows in which alarms are not announced.

use std::time::Duration;

use clap::Subcommand;
use ipnet::IpNet;
use ringtap::{Error, Result, clock};
use ringtap_run::units;
use ringtap_station::maintenance::{Scope, Window};
use ringtap_station::pattern::Pattern;

use ringtap_station::admission::network_of;

/// What is done with windows of maintenance.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Alarms of these nodes are stored and marked, and not announced; when it is over, what is still raised is
    Add(AddArgs),
    /// Windows that are not over
    List {
        /// Those that are over, too
        #[arg(long)]
        all: bool,
    },
    /// End one before its time
    End {
        /// Its number
        id: u64,
        /// Who ends it [default: $USER]
        #[arg(long, value_name = "NAME")]
        by: Option<String>,
    },
}

/// A window.
#[derive(Debug, clap::Args)]
pub struct AddArgs {
    /// This node, by the name that alarms or the topology have for it; * is any number of characters (may be given several times)
    #[arg(long, value_name = "NAME", required_unless_present = "network")]
    node: Vec<String>,
    /// Nodes with an address in this network, and what is sent from there (may be given several times)
    #[arg(long, value_name = "ADDR[/BITS]", value_parser = network_of)]
    network: Vec<IpNet>,
    /// From then on, such as 2026-11-25T22:00:00Z [default: now]
    #[arg(long, value_name = "INSTANT", value_parser = units::instant)]
    from: Option<u64>,
    /// Until then
    #[arg(long, value_name = "INSTANT", value_parser = units::instant, required_unless_present = "lasting")]
    until: Option<u64>,
    /// So long
    #[arg(long = "for", id = "lasting", value_name = "TIME", value_parser = units::duration, conflicts_with = "until")]
    lasting: Option<Duration>,
    /// Who makes it [default: $USER]
    #[arg(long, value_name = "NAME")]
    by: Option<String>,
    /// Why
    #[arg(long, value_name = "TEXT")]
    comment: Option<String>,
}

impl AddArgs {
    /// The window, made by this operator unless another is named.
    ///
    /// # Errors
    /// It is over before it begins.
    pub fn window(&self, operator: &str) -> Result<Window> {
        let from_ns = self.from.unwrap_or_else(clock::realtime_ns);
        let after = self.lasting.map(|lasting| from_ns.saturating_add(lasting.as_nanos() as u64));
        let until_ns = self.until.or(after).unwrap_or(from_ns);
        let refused = |cause: &str| {
            Err(Error::usage("add", "the maintenance", cause).way_out("give a later --until, or how long with --for"))
        };
        if until_ns <= from_ns {
            return refused("it is over before it begins");
        }
        if until_ns <= clock::realtime_ns() {
            return refused("it is over already");
        }
        let nodes = self.node.iter().map(|node| Pattern::new(node)).collect();
        let scope = Scope { nodes, networks: self.network.clone() };
        let operator = self.by.as_deref().unwrap_or(operator).to_owned();
        Ok(Window { id: 0, scope, from_ns, until_ns, operator, comment: self.comment.clone(), ended: None })
    }
}
