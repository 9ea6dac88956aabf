//! Owns: the AIT Alert Data Set (Zenodo record 8263181) as JSON lines: a file and a sensor for each product, its rows in
//! the order of time, without their labels; and the labels, to be asked by whoever judges.
//! Does not: judge.
//!
//! The address of a row is that of the host which the alert is of. So it is where a scan or an exploit that a network
//! sensor saw went (`dest_ip`), and `host.ip` for sensors on the host.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use ringtap_correlator::input::parse::hash;
use serde_json::json;

/// Sensors, and how the names of their alerts begin.
const PRODUCTS: [(&str, &str); 3] = [("suricata", "Suricata: Alert - "), ("wazuh", "Wazuh: "), ("aminer", "AMiner: ")];

/// An alert.
#[derive(Clone, Debug)]
pub struct Row {
    /// Seconds since 1970.
    pub time: i64,
    /// What it says, without the product's name.
    pub name: String,
    pub ip: String,
    pub host: String,
    /// `-`, or the step of the attack that it comes of.
    pub label: String,
    product: usize,
    short: String,
}

impl Row {
    /// `time,name,ip,host,short,time_label,event_label`; nothing is quoted, and a name may have commas.
    fn read(line: &str) -> Option<Self> {
        let (time, rest) = line.split_once(',')?;
        let mut fields = rest.rsplitn(6, ',');
        let mut field = || fields.next().map(str::to_owned);
        let (label, _time_label, short, host, ip, name) = (field()?, field()?, field()?, field()?, field()?, field()?);
        let (product, name) = PRODUCTS
            .iter()
            .enumerate()
            .find_map(|(at, (_, begin))| Some((at, name.strip_prefix(begin)?.to_owned())))?;
        Some(Self { time: time.parse().ok()?, name, ip, host, label, product, short })
    }

    /// What a correlator is given of it.
    fn line(&self) -> String {
        let Self { time, name, ip, host, short, .. } = self;
        let sensor = PRODUCTS[self.product].0;
        let line = match sensor {
            "suricata" => json!({"time": time, "sensor": sensor, "short": short, "dest_ip": ip,
                "host": {"name": host}, "alert": {"signature": name}}),
            _ => {
                json!({"time": time, "sensor": sensor, "short": short, "host": {"name": host, "ip": ip}, "message": name})
            }
        };
        line.to_string()
    }
}

/// A recorded network.
pub struct Recorded {
    /// All alerts in the order of time.
    pub rows: Vec<Row>,
    /// The files of their lines.
    pub files: Vec<PathBuf>,
    /// Rows by the hash of their line: equal ones in their order.
    places: HashMap<u64, Vec<usize>>,
}

impl Recorded {
    /// Reads `NAME_alerts.csv.xz` and writes a file for each product into `folder`.
    pub fn convert(alerts: &Path, folder: &Path) -> io::Result<Self> {
        let unpacked = Command::new("xz").arg("-dc").arg(alerts).output()?;
        if !unpacked.status.success() {
            return Err(io::Error::other(String::from_utf8_lossy(&unpacked.stderr).into_owned()));
        }
        let text = String::from_utf8(unpacked.stdout).map_err(io::Error::other)?;
        let read = |line: &str| Row::read(line).ok_or_else(|| io::Error::other(format!("no alert: {line}")));
        let mut rows = text.lines().skip(1).map(read).collect::<io::Result<Vec<Row>>>()?;
        // The file is several sorted ones, one after the other. A sensor gives its alerts as they come.
        rows.sort_by_key(|row| row.time);
        fs::create_dir_all(folder)?;
        let files: Vec<PathBuf> = PRODUCTS.iter().map(|(sensor, _)| folder.join(format!("{sensor}.jsonl"))).collect();
        let mut outputs =
            files.iter().map(|path| File::create(path).map(BufWriter::new)).collect::<io::Result<Vec<_>>>()?;
        let mut places: HashMap<u64, Vec<usize>> = HashMap::new();
        for (place, row) in rows.iter().enumerate() {
            let line = row.line();
            places.entry(hash(line.as_bytes())).or_default().push(place);
            writeln!(outputs[row.product], "{line}")?;
        }
        outputs.into_iter().try_for_each(|mut output| output.flush())?;
        Ok(Self { rows, files, places })
    }

    /// The alert that a member of an incident is, by what the correlator calls it.
    #[must_use]
    pub fn row(&self, epoch: u64, sequence: u64) -> Option<&Row> {
        Some(&self.rows[*self.places.get(&epoch)?.get(usize::try_from(sequence).ok()?)?])
    }
}
