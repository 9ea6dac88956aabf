//! Exports of NetBox: devices, interfaces, addresses and cables, as JSON of its REST API or as CSV.
//!
//! Owns which fields mean what. A JSON file is a list or an answer with `results`; what its objects are is seen by their fields. A CSV file
//! is an export of a table, or has the columns of NetBox's own import. NetBox has no ifIndex: the custom field `ifindex` (or
//! `snmp_ifindex`) of interfaces is taken for it where it is.

use std::collections::HashMap;
use std::net::IpAddr;

use serde_json::Value as Json;

use super::draft::{Draft, End};

/// Adds what is in a file; gives how many rows or objects were of use.
///
/// # Errors
/// It is neither, or of another table: in words, with the line where there is one.
pub fn read(text: &str, draft: &mut Draft) -> Result<usize, String> {
    let start = text.trim_start_matches('\u{feff}').trim_start();
    if start.starts_with(['{', '[']) { json(start, draft) } else { csv(start, draft) }
}

fn json(text: &str, draft: &mut Draft) -> Result<usize, String> {
    let mut file: Json = serde_json::from_str(text).map_err(|error| format!("no JSON: {error}"))?;
    if file.get("next").is_some_and(Json::is_string) {
        draft.notes.push("only the first page of an answer is here: ask NetBox with ?limit=0".to_owned());
    }
    let list = if file.is_array() { file.take() } else { file["results"].take() };
    let Json::Array(objects) = list else { return Err("neither a list nor an answer with `results`".to_owned()) };
    let mut used = 0;
    for object in &objects {
        used += usize::from(one(object, draft));
    }
    if used == 0 && !objects.is_empty() {
        return Err("no devices, interfaces, addresses or cables of NetBox are in it".to_owned());
    }
    Ok(used)
}

fn text<'j>(object: &'j Json, path: &[&str]) -> Option<&'j str> {
    path.iter().try_fold(object, |at, name| at.get(name))?.as_str().filter(|text| !text.is_empty())
}

/// `192.0.2.1/24`.
fn address(text: &str) -> Option<IpAddr> {
    text.split('/').next()?.trim().parse().ok()
}

fn one(object: &Json, draft: &mut Draft) -> bool {
    if object.get("a_terminations").is_some() {
        let [a, b] = ["a_terminations", "b_terminations"].map(|side| terminations(&object[side]));
        return links(&a, &b, draft);
    }
    if let (Some(told), Some(assigned)) = (text(object, &["address"]), object.get("assigned_object")) {
        let (device, address) = (text(assigned, &["device", "name"]), address(told));
        return device.zip(address).is_some_and(|(device, address)| draft.node(device).addresses.insert(address));
    }
    let Some(name) = text(object, &["name"]) else { return false };
    if let Some(device) = text(object, &["device", "name"]).filter(|_| object.get("type").is_some()) {
        let of = |field: &str| object["custom_fields"].get(field).and_then(Json::as_u64);
        let index = of("ifindex").or_else(|| of("snmp_ifindex")).and_then(|index| u32::try_from(index).ok());
        draft.interface(device, name, index);
        return true;
    }
    if object.get("device_type").is_some() {
        let addresses = ["primary_ip4", "primary_ip6", "primary_ip", "oob_ip"];
        let found = addresses.iter().filter_map(|field| address(text(object, &[field, "address"])?));
        let (found, site) = (found.collect::<Vec<_>>(), text(object, &["site", "name"]).map(str::to_owned));
        let node = draft.node(name);
        node.addresses.extend(found);
        node.site = site.or(node.site.take());
        return true;
    }
    false
}

fn terminations(side: &Json) -> Vec<End> {
    let one = |it: &Json| {
        let object = it.get("object").unwrap_or(it);
        let is_interface = text(it, &["object_type"]).is_none_or(|kind| kind == "dcim.interface");
        let (device, name) = (text(object, &["device", "name"])?, text(object, &["name"])?);
        is_interface.then(|| (device.to_owned(), name.to_owned()))
    };
    side.as_array().into_iter().flatten().filter_map(one).collect()
}

/// A cable between interfaces; breakout cables have several ends at one side or both.
fn links(a: &[End], b: &[End], draft: &mut Draft) -> bool {
    if a.len() == b.len() {
        a.iter().zip(b).for_each(|(a, b)| draft.link(a.clone(), b.clone()));
    } else if let ([one], several) | (several, [one]) = (a, b) {
        // One interface, one link.
        let Some(first) = several.first() else { return false };
        draft.link(one.clone(), first.clone());
        let rest: Vec<&str> = several.iter().skip(1).map(|end| end.1.as_str()).collect();
        draft.notes.push(format!("left out: further ends of a cable at {}:{}: {}", one.0, one.1, rest.join(", ")));
    }
    !a.is_empty() && !b.is_empty()
}

/// Columns that mean the same, in lower case: of table exports and of imports.
const COLUMNS: &[(&str, &[&str])] = &[
    ("device", &["device"]),
    ("name", &["name"]),
    ("site", &["site"]),
    ("role", &["role", "device role", "device_role"]),
    ("type", &["type", "device_type"]),
    ("address", &["ip address", "address", "primary ip", "primary_ip", "primary_ip4", "ipv4 address"]),
    ("address6", &["ipv6 address", "primary_ip6"]),
    ("ifindex", &["ifindex", "cf_ifindex", "snmp_ifindex", "cf_snmp_ifindex", "snmp ifindex"]),
    ("device a", &["device a", "side_a_device", "side a"]),
    ("name a", &["termination a", "side_a_name"]),
    ("type a", &["side_a_type"]),
    ("device b", &["device b", "side_b_device", "side b"]),
    ("name b", &["termination b", "side_b_name"]),
    ("type b", &["side_b_type"]),
];

fn csv(text: &str, draft: &mut Draft) -> Result<usize, String> {
    let heading = text.lines().next().unwrap_or_default();
    let delimiter = if heading.matches(';').count() > heading.matches(',').count() { b';' } else { b',' };
    let mut reader = csv::ReaderBuilder::new().delimiter(delimiter).flexible(true).from_reader(text.as_bytes());
    let headers = reader.headers().map_err(|error| error.to_string())?.clone();
    let mut columns: HashMap<&str, usize> = HashMap::new();
    for (at, header) in headers.iter().enumerate() {
        let header = header.trim().to_lowercase();
        if let Some((column, _)) = COLUMNS.iter().find(|(_, names)| names.contains(&header.as_str())) {
            columns.entry(column).or_insert(at);
        }
    }
    let has = |names: &[&str]| names.iter().all(|name| columns.contains_key(name));
    let row: fn(&Row<'_>, &mut Draft) -> bool = if has(&["device a", "name a", "device b", "name b"]) {
        cable
    } else if has(&["device", "name"]) {
        interface
    } else if has(&["device", "address"]) {
        assigned
    } else if has(&["name", "site"]) || has(&["name", "role"]) {
        device
    } else {
        return Err(format!(
            "line 1: these are no columns of devices, interfaces, addresses or cables: {heading:.100}"
        ));
    };
    let mut used = 0;
    for record in reader.records() {
        let record = record.map_err(|error| error.to_string())?;
        used += usize::from(row(&Row { record: &record, columns: &columns }, draft));
    }
    Ok(used)
}

struct Row<'r> {
    record: &'r csv::StringRecord,
    columns: &'r HashMap<&'static str, usize>,
}

impl<'r> Row<'r> {
    fn of(&self, column: &str) -> Option<&'r str> {
        let text = self.record.get(*self.columns.get(column)?)?.trim();
        (!text.is_empty() && text != "—").then_some(text)
    }
}

fn device(row: &Row<'_>, draft: &mut Draft) -> bool {
    let Some(name) = row.of("name") else { return false };
    let node = draft.node(name);
    node.addresses.extend(["address", "address6"].into_iter().filter_map(|column| address(row.of(column)?)));
    node.site = row.of("site").map(str::to_owned).or(node.site.take());
    true
}

fn interface(row: &Row<'_>, draft: &mut Draft) -> bool {
    let Some((device, name)) = row.of("device").zip(row.of("name")) else { return false };
    draft.interface(device, name, row.of("ifindex").and_then(|index| index.parse().ok()));
    true
}

fn assigned(row: &Row<'_>, draft: &mut Draft) -> bool {
    let found = row.of("device").zip(row.of("address").and_then(address));
    found.is_some_and(|(device, address)| draft.node(device).addresses.insert(address))
}

fn cable(row: &Row<'_>, draft: &mut Draft) -> bool {
    // A side with several ends is listed with commas.
    let side = |device: &str, name: &str, kind: &str| {
        let is_interface = row.of(kind).is_none_or(|kind| kind == "dcim.interface" || kind == "interface");
        let (device, names) = (row.of(device)?, row.of(name).filter(|_| is_interface)?);
        Some(names.split(',').map(|name| (device.to_owned(), name.trim().to_owned())).collect::<Vec<End>>())
    };
    let Some((a, b)) = side("device a", "name a", "type a").zip(side("device b", "name b", "type b")) else {
        return false;
    };
    links(&a, &b, draft)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json_files() -> [&'static str; 4] {
        [
            r#"{"count": 2, "next": null, "results": [
                {"name": "core1", "device_type": {"model": "x"}, "site": {"name": "Paris"}, "primary_ip4": {"address": "192.0.2.1/24"}},
                {"name": "edge1", "device_type": {"model": "x"}, "site": {"name": "Lyon"}, "primary_ip4": null}]}"#,
            r#"[{"name": "et-0/0/1", "device": {"name": "core1"}, "type": {"value": "x"}, "custom_fields": {"ifindex": 501}},
                {"name": "Gi0/1", "device": {"name": "edge1"}, "type": {"value": "x"}, "custom_fields": {}}]"#,
            r#"[{"address": "2001:db8::2/64", "assigned_object": {"name": "Gi0/1", "device": {"name": "edge1"}}},
                {"address": "192.0.2.9/24", "assigned_object": null}]"#,
            r#"[{"a_terminations": [{"object_type": "dcim.interface", "object": {"name": "et-0/0/1", "device": {"name": "core1"}}}],
                 "b_terminations": [{"object_type": "dcim.interface", "object": {"name": "Gi0/1", "device": {"name": "edge1"}}}]},
                {"a_terminations": [{"object_type": "dcim.powerport", "object": {"name": "PSU", "device": {"name": "core1"}}}],
                 "b_terminations": [{"object_type": "dcim.poweroutlet", "object": {"name": "1", "device": {"name": "pdu"}}}]}]"#,
        ]
    }

    #[test]
    fn json_and_csv_of_the_same_network_make_the_same_file() {
        let mut from_json = Draft::default();
        let used: Vec<usize> = json_files().iter().map(|text| read(text, &mut from_json).unwrap()).collect();
        assert_eq!(used, [2, 2, 1, 1]);
        let mut from_csv = Draft::default();
        for text in [
            "Name,Status,Tenant,Site,Role,IP Address\ncore1,Active,—,Paris,Core,192.0.2.1/24\nedge1,Active,—,Lyon,Edge,—\n",
            "\u{feff}Device;Name;Type;ifindex\ncore1;et-0/0/1;x;501\nedge1;Gi0/1;x;\n",
            "address,device,interface\n2001:db8::2/64,edge1,Gi0/1\n",
            "side_a_device,side_a_type,side_a_name,side_b_device,side_b_type,side_b_name\n\
             core1,dcim.interface,et-0/0/1,edge1,dcim.interface,Gi0/1\ncore1,dcim.powerport,PSU,pdu,dcim.poweroutlet,1\n",
        ] {
            read(text, &mut from_csv).unwrap();
        }
        assert_eq!(from_json.toml(), from_csv.toml());
        let topology = crate::topology::file::read(&from_csv.toml()).unwrap();
        assert_eq!(topology.link_name(0), "core1:et-0/0/1-edge1:Gi0/1");
        assert_eq!(topology.find("2001:db8::2"), topology.find("EDGE1.example.net"));
    }

    #[test]
    fn an_export_of_cables_has_other_columns_and_breakouts_several_ends() {
        let mut draft = Draft::default();
        let text = "ID,Label,Device A,Termination A,Device B,Termination B,Status\n\
                    1,,a,e1,b,e1,Connected\n2,,a,q1,b,\"s1, s2\",Connected\n3,,,,b,e9,Connected\n";
        assert_eq!((read(text, &mut draft).unwrap(), draft.links(), draft.notes.len()), (2, 2, 1), "{:?}", draft.notes);
    }

    #[test]
    fn other_files_are_refused_in_words() {
        let refused = |text: &str| read(text, &mut Draft::default()).unwrap_err();
        assert!(refused("a,b,c\n1,2,3\n").contains("line 1"));
        assert!(refused("[{\"x\": 1}]").contains("no devices"));
        assert!(refused("{\"detail\": \"Invalid token\"}").contains("results"));
        assert!(refused("[{").contains("JSON"));
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "(Device A|Termination A|Name|Site|,|;|\"|a|\n|\\[|\\{|\\}|:){0,60}") {
            let _ = read(&text, &mut Draft::default());
        }
    }
}
