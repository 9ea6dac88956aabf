//! Owns: what may stand in `ringtap.toml`, by the types that read it: as a JSON Schema, as a page to read, and as what is in effect.
//! Does not: read the file for a program.
//!
//! A key that holds a secret is `writeOnly` in the schema: its value is never shown.

use std::fmt::Write;

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

/// What stands for a secret.
const HIDDEN: &str = "***";

/// Tables, and the schema of each.
#[derive(Debug, Clone, Default)]
pub struct Keys(Map<String, Value>);

impl Keys {
    /// Of a type that reads tables as its fields; what it says of its fields is their description.
    #[must_use]
    pub fn of<T: JsonSchema>() -> Self {
        let inline = SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
        let mut schema = inline.into_generator().into_root_schema_for::<T>().to_value();
        as_in_toml(&mut schema);
        match schema.get_mut("properties").map(Value::take) {
            Some(Value::Object(tables)) => Self(tables),
            _ => Self::default(),
        }
    }

    /// Of one table, by its schema.
    #[must_use]
    pub fn of_table(name: &str, schema: Value) -> Self {
        Self(Map::from_iter([(name.to_owned(), schema)]))
    }

    /// These and those of `other`, which may be keys of the same tables.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        for (name, schema) in other.0 {
            let Some(ours) = self.0.get_mut(&name) else {
                self.0.insert(name, schema);
                continue;
            };
            let words = [text_of(ours, "description"), text_of(&schema, "description")].join(". ");
            ours["description"] = words.into();
            if let (Value::Object(ours), Some(theirs)) = (&mut ours["properties"], schema["properties"].as_object()) {
                ours.extend(theirs.clone());
            }
        }
        self
    }

    /// Names of the tables.
    pub fn tables(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// The schema of a file that has tables of all these.
    #[must_use]
    pub fn schema(all: impl IntoIterator<Item = Self>) -> Value {
        let tables: Map<String, Value> = all.into_iter().flat_map(|keys| keys.0).collect();
        json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "title": "ringtap.toml",
            "description": "The configuration of all programs of Ringtap",
            "type": "object",
            "additionalProperties": false,
            "properties": tables,
        })
    }

    /// What is in effect by `file`, as TOML: what it says, and the defaults that are known without a program's start. Secrets are `***`.
    #[must_use]
    pub fn in_effect(&self, file: &toml::Table) -> String {
        let mut text = String::new();
        for (name, schema) in &self.0 {
            match file.get(name) {
                Some(toml::Value::Table(table)) => write_table(&mut text, name, schema, table, true),
                Some(_) => {}
                None => write_table(&mut text, name, schema, &toml::Table::new(), false),
            }
        }
        text
    }

    /// The tables for a page in Markdown: each key with its type, its default and what it is.
    #[must_use]
    pub fn page(&self) -> String {
        let mut text = String::new();
        for (name, schema) in &self.0 {
            describe(&mut text, &format!("[{name}]"), name, schema);
        }
        text
    }
}

/// TOML has no null: a key is left out.
fn as_in_toml(schema: &mut Value) {
    match schema {
        Value::Object(map) => {
            if let Some(Value::Array(types)) = map.get_mut("type") {
                types.retain(|kind| kind != "null");
                if let [only] = &types[..] {
                    let only = only.clone();
                    map.insert("type".to_owned(), only);
                }
            }
            if map.get("default").is_some_and(Value::is_null) {
                map.remove("default");
            }
            if let Some(Value::Array(values)) = map.get_mut("enum") {
                values.retain(|value| !value.is_null());
            }
            if let Some(Value::Array(choices)) = map.get("anyOf")
                && choices.contains(&json!({"type": "null"}))
            {
                let choice = choices.iter().find(|choice| choice["type"] != "null").cloned();
                map.remove("anyOf");
                for (key, value) in choice.as_ref().and_then(Value::as_object).into_iter().flatten() {
                    map.entry(key.clone()).or_insert_with(|| value.clone());
                }
            }
            map.values_mut().for_each(as_in_toml);
        }
        Value::Array(values) => values.iter_mut().for_each(as_in_toml),
        _ => {}
    }
}

fn text_of<'v>(schema: &'v Value, key: &str) -> &'v str {
    schema.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// The keys of a table, or of each table of a list.
fn fields(schema: &Value) -> Option<&Map<String, Value>> {
    let of = if schema["type"] == "array" { schema.get("items")? } else { schema };
    of.get("properties")?.as_object()
}

/// A key as TOML writes it.
fn bare(key: &str) -> String {
    let is_bare = !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
    if is_bare { key.to_owned() } else { toml::Value::from(key).to_string() }
}

/// A table: its own keys, then the tables within. Without a line of its own it is shown only where the file has it.
fn write_table(text: &mut String, path: &str, schema: &Value, table: &toml::Table, is_there: bool) {
    let known = fields(schema);
    let mut lines = String::new();
    let mut within = Vec::new();
    for (key, schema) in known.into_iter().flatten() {
        match table.get(key) {
            Some(value) if fields(schema).is_some() => within.push((key, schema, value)),
            Some(value) => _ = writeln!(lines, "{} = {}", bare(key), shown(value, schema)),
            None => {
                if let Some(value) = schema.get("default").and_then(|value| toml::Value::try_from(value).ok())
                    && fields(schema).is_none()
                {
                    _ = writeln!(lines, "{} = {value}  # default", bare(key));
                }
            }
        }
    }
    // Names that the user gives, such as variables.
    if known.is_none() {
        let of = schema.get("additionalProperties").unwrap_or(&Value::Null);
        for (key, value) in table {
            _ = writeln!(lines, "{} = {}", bare(key), shown(value, of));
        }
    }
    if is_there || !lines.is_empty() {
        _ = writeln!(text, "[{path}]\n{lines}");
    }
    for (key, schema, value) in within {
        let path = format!("{path}.{}", bare(key));
        match value {
            toml::Value::Table(table) => write_table(text, &path, schema, table, true),
            toml::Value::Array(tables) => {
                for table in tables.iter().filter_map(toml::Value::as_table) {
                    write_table(text, &format!("[{path}]"), &schema["items"], table, true);
                }
            }
            _ => {}
        }
    }
}

/// A value, or what stands for a secret.
fn shown(value: &toml::Value, schema: &Value) -> toml::Value {
    if schema["writeOnly"] == true {
        return HIDDEN.into();
    }
    match value {
        toml::Value::Array(values) => {
            toml::Value::Array(values.iter().map(|value| shown(value, &schema["items"])).collect())
        }
        toml::Value::Table(table) => {
            let of = |key: &str| schema["properties"].get(key).unwrap_or(&schema["additionalProperties"]);
            toml::Value::Table(table.iter().map(|(key, value)| (key.clone(), shown(value, of(key)))).collect())
        }
        value => value.clone(),
    }
}

/// A table and those within it.
fn describe(text: &mut String, heading: &str, path: &str, schema: &Value) {
    _ = write!(text, "### `{heading}`\n\n");
    let words = text_of(schema, "description");
    if !words.is_empty() {
        _ = write!(text, "{}.\n\n", one_line(words));
    }
    let Some(known) = fields(schema) else {
        let kind = kind(schema.get("additionalProperties").unwrap_or(&Value::Null));
        _ = write!(text, "Each key is a name that you give; its value is a {kind}.\n\n");
        return;
    };
    let of = if schema["type"] == "array" { &schema["items"] } else { schema };
    let must = |key: &str| of["required"].as_array().is_some_and(|required| required.iter().any(|name| name == key));
    let (tables, own): (Vec<_>, Vec<_>) = known.iter().partition(|(_, schema)| fields(schema).is_some());
    if !own.is_empty() {
        text.push_str("| key | value | default | meaning |\n|---|---|---|---|\n");
    }
    for (key, schema) in &own {
        let default = match schema.get("default") {
            Some(value) => format!("`{value}`"),
            None if must(key) => "must be given".to_owned(),
            None => String::new(),
        };
        let secret = if schema["writeOnly"] == true || schema["items"]["writeOnly"] == true { " (secret)" } else { "" };
        let words = one_line(text_of(schema, "description")).replace('|', "\\|");
        _ = writeln!(text, "| `{key}` | {}{secret} | {default} | {words} |", kind(schema));
    }
    if !own.is_empty() {
        text.push('\n');
    }
    for (key, schema) in tables {
        let path = format!("{path}.{key}");
        let heading = if schema["type"] == "array" { format!("[[{path}]]") } else { format!("[{path}]") };
        describe(text, &heading, &path, schema);
    }
}

/// A description on one line.
fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// What a value is, in words.
fn kind(schema: &Value) -> String {
    let choices: Vec<&str> = match (&schema["enum"], &schema["oneOf"]) {
        (Value::Array(values), _) => values.iter().filter_map(Value::as_str).collect(),
        (_, Value::Array(choices)) => choices.iter().filter_map(|choice| choice["const"].as_str()).collect(),
        _ => Vec::new(),
    };
    if !choices.is_empty() {
        return choices.iter().map(|choice| format!("`\"{choice}\"`")).collect::<Vec<_>>().join(", ");
    }
    match &schema["type"] {
        Value::Array(types) => types.iter().filter_map(Value::as_str).map(word).collect::<Vec<_>>().join(" or "),
        Value::String(kind) if kind == "array" => format!("list of {}s", kind_of_item(&schema["items"])),
        Value::String(kind) => word(kind).to_owned(),
        _ => "text".to_owned(),
    }
}

fn kind_of_item(schema: &Value) -> &str {
    schema["type"].as_str().map_or("text", word)
}

fn word(kind: &str) -> &str {
    match kind {
        "string" => "text",
        "integer" => "whole number",
        "boolean" => "true or false",
        "object" => "table",
        "array" => "list",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::PathBuf;

    use super::*;

    #[derive(serde::Deserialize, JsonSchema)]
    #[serde(default)]
    #[derive(Default)]
    struct File {
        table: Table,
        /// Names
        names: BTreeMap<String, String>,
        other: Option<Inner>,
    }

    /// What is in it
    #[derive(Default, serde::Deserialize, JsonSchema)]
    #[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
    struct Table {
        /// One | two
        #[schemars(extend("default" = 7))]
        a_number: Option<u8>,
        share: f64,
        #[schemars(extend("writeOnly" = true))]
        password: Option<String>,
        words: Vec<Word>,
        file: Option<PathBuf>,
        inner: Option<Inner>,
        many: Vec<Inner>,
    }

    #[derive(serde::Deserialize, JsonSchema)]
    #[serde(transparent)]
    #[schemars(extend("writeOnly" = true))]
    #[expect(dead_code, reason = "its schema alone is used")]
    struct Word(String);

    /// Within
    #[derive(serde::Deserialize, JsonSchema)]
    #[expect(dead_code, reason = "its schema alone is used")]
    struct Inner {
        must: String,
        labels: BTreeMap<String, String>,
        way: Option<Way>,
    }

    #[derive(serde::Deserialize, JsonSchema)]
    #[serde(rename_all = "kebab-case")]
    enum Way {
        There,
        AndBack,
    }

    #[test]
    fn what_is_in_effect_has_defaults_and_no_secret() {
        let file = "[names]\n\"a b\" = \"c\"\n[table]\npassword = \"s3cret\"\nwords = [\"s3cret\"]\nfile = \"f\"\n\
            [[table.many]]\nmust = \"x\"\n[table.many.labels]\nsite = \"north\"\n";
        let text = Keys::of::<File>().in_effect(&file.parse().unwrap());
        let expected = "[names]\n\"a b\" = \"c\"\n\n[table]\na-number = 7  # default\nfile = \"f\"\npassword = \"***\"\n\
            share = 0.0  # default\nwords = [\"***\"]\n\n[[table.many]]\nlabels = { site = \"north\" }\nmust = \"x\"\n\n";
        assert_eq!(text, expected);
        let again: toml::Table = text.parse().unwrap();
        assert_eq!(again["table"]["many"][0]["labels"]["site"].as_str(), Some("north"));
        let nothing = Keys::of::<File>().in_effect(&toml::Table::new());
        assert_eq!(nothing, "[table]\na-number = 7  # default\nshare = 0.0  # default\n\n");
    }

    #[test]
    fn the_schema_knows_no_null_and_no_other_keys() {
        let schema = Keys::schema([Keys::of::<File>()]);
        let text = schema.to_string();
        assert!(!text.contains("null") && !text.contains("$ref"), "{text}");
        let table = &schema["properties"]["table"];
        assert_eq!(table["additionalProperties"], false);
        assert_eq!(table["properties"]["inner"]["required"], json!(["must", "labels"]));
        assert_eq!(table["properties"]["password"]["writeOnly"], true);
    }

    #[test]
    fn two_readers_of_a_table_have_one_schema() {
        let option = json!({"type": "string", "default": "5s"});
        let one = Keys::of_table("other", json!({"description": "Options", "properties": {"wait": option}}));
        let both = one.and(Keys::of::<File>());
        assert_eq!(both.tables().collect::<Vec<_>>(), ["names", "other", "table"]);
        let page = both.page();
        for line in ["Options. Within.\n", "| `wait` | text | `\"5s\"` |", "| `must` | text |"] {
            assert!(page.contains(line), "{line}\n{page}");
        }
        let text = both.in_effect(&"[other]\nmust = \"x\"\n".parse().unwrap());
        assert!(text.starts_with("[other]\nmust = \"x\"\nwait = \"5s\"  # default\n"), "{text}");
    }

    #[test]
    fn the_page_has_each_key() {
        let page = Keys::of::<File>().page();
        for line in [
            "### `[table]`\n\nWhat is in it.\n",
            "| `a-number` | whole number | `7` | One \\| two |\n",
            "| `password` | text (secret) |  |  |\n",
            "| `words` | list of texts (secret) |  |  |\n",
            "### `[[table.many]]`\n",
            "| `must` | text | must be given |  |\n",
            "| `way` | `\"there\"`, `\"and-back\"` |  |  |\n",
            "### `[names]`\n\nNames.\n\nEach key is a name that you give; its value is a text.\n",
        ] {
            assert!(page.contains(line), "{line}\n{page}");
        }
    }
}
