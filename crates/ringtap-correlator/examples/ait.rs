//! Converts a file of the AIT Alert Data Set for `ringtap correlate --read`:
//!
//!     cargo run -p ringtap-correlator --example ait -- russellmitchell_alerts.csv.xz FOLDER

use std::path::Path;

#[path = "../tests/ait/convert.rs"]
mod convert;

fn main() -> std::io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [alerts, folder] = arguments.as_slice() else {
        return Err(std::io::Error::other("give a file NAME_alerts.csv.xz and a folder to write to"));
    };
    let recorded = convert::Recorded::convert(Path::new(alerts), Path::new(folder))?;
    let (first, last) = (recorded.rows.first(), recorded.rows.last());
    let sample = first.and_then(|row| recorded.row(0, 0).or(Some(row)));
    println!(
        "{} alerts of {:?}..{:?} s in {:?}, the first of {:?}",
        recorded.rows.len(),
        first.map(|row| row.time),
        last.map(|row| row.time),
        recorded.files,
        sample.map(|row| (&row.host, &row.ip, &row.name, &row.label))
    );
    Ok(())
}
