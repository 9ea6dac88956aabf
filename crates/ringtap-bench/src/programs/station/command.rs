//! How each receiver of notifications is configured at its best: its configuration file and its command line.

use std::fs;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use ringtap::{Error, Result};
use ringtap_testbed::Testbed;
use ringtap_testbed::storm::form::engine_id;

use super::load::{ENGINES, Load, USER};
use super::receiver::Receiver;
use crate::definition::Programs;

/// Receive buffer asked for by everybody, bytes.
const BUFFER: u64 = 64 << 20;

/// The command line, after the configuration was written to `folder`. What comes out goes to `output`, or to a store.
pub(super) fn command_line(
    testbed: &Testbed,
    programs: &Programs,
    receiver: Receiver,
    load: Load,
    folder: &Path,
    output: &Path,
) -> Result<Vec<String>> {
    let line = match receiver {
        Receiver::RingtapXdp | Receiver::RingtapSocket => ringtap(testbed, programs, receiver, load, folder)?,
        Receiver::SnmptrapdFile | Receiver::SnmptrapdHandler => snmptrapd(receiver, load, folder, output)?,
        Receiver::Telegraf => telegraf(programs, load, folder, output)?,
        Receiver::Rsyslog => rsyslog(folder, output)?,
        Receiver::SyslogNg => syslog_ng(programs, folder, output)?,
    };
    Ok(line.split_whitespace().map(str::to_owned).collect())
}

fn ringtap(testbed: &Testbed, programs: &Programs, receiver: Receiver, load: Load, folder: &Path) -> Result<String> {
    let [user, auth, privacy] = USER;
    // A station with users takes nothing of v1 and v2c.
    let users = match load {
        Load::V3 => format!(
            "[[trap.user]]\nname = \"{user}\"\nauth = \"SHA\"\nauth-password = \"{auth}\"\nprivacy = \"AES\"\nprivacy-password = \"{privacy}\"\n"
        ),
        Load::V2c | Load::Syslog => String::new(),
    };
    let configuration = write(&folder.join("ringtap.toml"), &users)?;
    let what = if load == Load::Syslog { "--syslog" } else { "--listen" };
    let ring = if receiver == Receiver::RingtapXdp {
        format!("-i {} --backend xdp", testbed.receiver().interface())
    } else {
        String::new()
    };
    Ok(format!(
        "{} trap {ring} {what} 0.0.0.0:{} --store {} --config {configuration} --buffer {BUFFER} --spool {BUFFER} --json --stats 100ms",
        crate::programs::ringtap(programs)?.display(),
        load.port(),
        folder.join("store").display()
    ))
}

fn snmptrapd(receiver: Receiver, load: Load, folder: &Path, output: &Path) -> Result<String> {
    let [user, auth, privacy] = USER;
    let output = output.display();
    let mut text = format!("disableAuthorization yes\nformat2 %b %v\\n\n[snmp] serverRecvBuf {BUFFER}\n");
    if load == Load::V3 {
        for node in 0..ENGINES {
            let id = data_encoding::HEXLOWER.encode(&engine_id(node));
            text += &format!("[snmptrapd] createUser -e 0x{id} {user} SHA {auth} AES {privacy}\n");
        }
    }
    let mut log = format!("-Lf {output}");
    if receiver == Receiver::SnmptrapdHandler {
        text += &format!("[snmptrapd] traphandle default /usr/bin/tee -a {output}\n[snmptrapd] doNotLogTraps yes\n");
        "-Le".clone_into(&mut log);
    }
    let configuration = write(&folder.join("trapd.conf"), &text)?;
    Ok(format!("snmptrapd -f -n -C -c {configuration} {log} -On -p {}/pid udp:162", folder.display()))
}

fn telegraf(programs: &Programs, load: Load, folder: &Path, output: &Path) -> Result<String> {
    let [user, auth, privacy] = USER;
    let telegraf = programs.telegraf.as_deref().unwrap_or(Path::new("telegraf"));
    let version = match load {
        Load::V3 => format!(
            "version = \"3\"\nsec_name = \"{user}\"\nsec_level = \"authPriv\"\nauth_protocol = \"SHA\"\nauth_password = \"{auth}\"\npriv_protocol = \"AES\"\npriv_password = \"{privacy}\"\n"
        ),
        _ => "version = \"2c\"\n".to_owned(),
    };
    let mibs = folder.join("mibs");
    fs::create_dir(&mibs).map_err(|error| Error::os("make", "the folder of MIBs", &error))?;
    let configuration = write(
        &folder.join("telegraf.conf"),
        &format!(
            "[agent]\nomit_hostname = true\nsnmp_translator = \"gosmi\"\nmetric_batch_size = 10000\nmetric_buffer_limit = 2000000\nflush_interval = \"200ms\"\nquiet = true\n[[inputs.snmp_trap]]\nservice_address = \"udp://0.0.0.0:162\"\npath = [\"{}\"]\n{version}[[outputs.file]]\nfiles = [\"{}\"]\ndata_format = \"influx\"\n",
            programs.mibs.as_deref().unwrap_or(&mibs).display(),
            output.display()
        ),
    )?;
    Ok(format!("{} --config {configuration}", telegraf.display()))
}

fn rsyslog(folder: &Path, output: &Path) -> Result<String> {
    let configuration = write(
        &folder.join("rsyslog.conf"),
        &format!(
            "global(workDirectory=\"{0}\" net.enableDNS=\"off\")\nmain_queue(queue.type=\"FixedArray\" queue.size=\"1000000\" queue.dequeueBatchSize=\"4096\")\nmodule(load=\"imudp\" batchSize=\"128\")\ninput(type=\"imudp\" port=\"514\" rcvbufSize=\"64m\")\naction(type=\"omfile\" file=\"{1}\" ioBufferSize=\"256k\")\n",
            folder.display(),
            output.display()
        ),
    )?;
    Ok(format!("rsyslogd -n -x -f {configuration} -i {}/pid", folder.display()))
}

fn syslog_ng(programs: &Programs, folder: &Path, output: &Path) -> Result<String> {
    let configuration = write(
        &folder.join("syslog-ng.conf"),
        &format!(
            "@version: 3.35\noptions {{ flush-lines(1000); use-dns(no); keep-hostname(yes); stats-freq(0); log-fifo-size(2000000); }};\nsource s {{ network(transport(\"udp\") port(514) so-rcvbuf({BUFFER}) log-fetch-limit(1000)); }};\ndestination d {{ file(\"{}\"); }};\nlog {{ source(s); destination(d); }};\n",
            output.display()
        ),
    )?;
    let (program, modules) = match &programs.syslog_ng {
        Some(unpacked) => (
            unpacked.join("usr/sbin/syslog-ng").display().to_string(),
            format!("--module-path={}", unpacked.join("usr/lib/syslog-ng/3.38").display()),
        ),
        None => ("syslog-ng".to_owned(), String::new()),
    };
    let at = folder.display();
    Ok(format!("{program} -F --no-caps {modules} -f {configuration} -p {at}/pid -c {at}/ctl -R {at}/persist"))
}

/// For its owner alone: passwords are in it.
fn write(path: &Path, text: &str) -> Result<String> {
    let name = path.display().to_string();
    let open = fs::OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(path);
    open.and_then(|mut file| file.write_all(text.as_bytes())).map_err(|error| Error::os("write", &name, &error))?;
    Ok(name)
}
