//! Which alarms are meant, as options.

use std::time::Duration;

use ipnet::IpNet;
use ringtap_run::units;
use ringtap_station::admission::network_of;
use ringtap_station::alarm::Severity;
use ringtap_station::filter::Filter;
use ringtap_station::pattern::Pattern;

/// Which alarms are meant.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Which alarms (all that is given must be true; one of several of a kind)")]
pub struct FilterArgs {
    /// Only this severity and worse: indeterminate, warning, minor, major, critical; of incidents an informational level
    /// counts as the first, low as the second, and so on
    #[arg(long, value_name = "SEVERITY", value_parser = severity)]
    pub severity: Option<Severity>,
    /// Nodes with an address in this network, and what is sent from there (may be given several times)
    #[arg(long, value_name = "ADDR[/BITS]", value_parser = network_of)]
    network: Vec<IpNet>,
    /// This node, as alarms have it; * is any number of characters (may be given several times)
    #[arg(long, value_name = "NAME")]
    node: Vec<String>,
    /// This condition, by number or name; * is any number of characters (may be given several times)
    #[arg(long, value_name = "NAME")]
    condition: Vec<String>,
    /// This object within the node; * is any number of characters (may be given several times)
    #[arg(long, value_name = "NAME")]
    object: Vec<String>,
    /// No notification of it came for so long
    #[arg(long, value_name = "TIME", value_parser = units::duration)]
    quiet_for: Option<Duration>,
    /// Somebody takes care of it
    #[arg(long)]
    acknowledged: bool,
    /// Nobody takes care of it
    #[arg(long, conflicts_with = "acknowledged")]
    unacknowledged: bool,
    /// It is in maintenance
    #[arg(long)]
    in_maintenance: bool,
    /// It is not in maintenance
    #[arg(long, conflicts_with = "in_maintenance")]
    not_in_maintenance: bool,
}

impl FilterArgs {
    /// What they mean; `all`: cleared ones too.
    pub fn filter(&self, all: bool) -> Filter {
        let patterns = |texts: &[String]| texts.iter().map(|text| Pattern::new(text)).collect();
        let either = |yes: bool, no: bool| (yes || no).then_some(yes);
        Filter {
            all,
            least: self.severity,
            networks: self.network.clone(),
            nodes: patterns(&self.node),
            conditions: patterns(&self.condition),
            objects: patterns(&self.object),
            quiet: self.quiet_for,
            acknowledged: either(self.acknowledged, self.unacknowledged),
            maintenance: either(self.in_maintenance, self.not_in_maintenance),
        }
    }

    /// Whether something else than a severity is asked for, which incidents do not have.
    pub fn is_of_alarms(&self) -> bool {
        Filter { least: None, ..self.filter(false) }.is_narrow()
    }
}

fn severity(text: &str) -> Result<Severity, String> {
    Severity::from_name(text).ok_or_else(|| "give one of indeterminate, warning, minor, major, critical".to_owned())
}
