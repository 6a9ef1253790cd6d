//! The schema of the report's JSON is written from the Rust types: their fields, bounds and doc comments.
//! `NEARFAR_UPDATE_DOCS=1 cargo test -p nearfar-report --test schema` writes docs/report.schema.json.

use nearfar_analyze::Report;
use nearfar_figures::json::pretty;
use nearfar_report::json::SCHEMA_VERSION;
use schemars::generate::SchemaSettings;
use schemars::transform::transform_subschemas;
use schemars::{JsonSchema, Schema};
use serde::{Serialize, Serializer};
use serde_json::Value;

/// Keywords in the order in which a person reads them; those of `properties` follow the fields of the type.
const KEYWORDS: &[&str] = &[
    "$schema",
    "$id",
    "title",
    "description",
    "$ref",
    "const",
    "enum",
    "type",
    "minimum",
    "maximum",
    "items",
    "prefixItems",
    "minItems",
    "maxItems",
    "oneOf",
    "anyOf",
    "properties",
    "required",
    "$defs",
];

fn of<T: JsonSchema>() -> Value {
    let mut schema =
        SchemaSettings::draft2020_12().for_serialize().into_generator().into_root_schema_for::<T>();
    if let Some(version) = schema.pointer_mut("/properties/schema") {
        version["const"] = SCHEMA_VERSION.into();
    }
    plain(&mut schema);
    schema.to_value()
}

/// Without the widths of Rust's numbers, on which no reader of JSON can rely, the type of a constant, and the ends of a
/// comment's lines.
fn plain(schema: &mut Schema) {
    schema.remove("format");
    if schema.get("const").is_some() {
        schema.remove("type");
        schema.remove("minimum");
    }
    if let Some(Value::String(text)) = schema.get_mut("description") {
        *text = text.replace('\n', " ");
    }
    transform_subschemas(&mut plain, schema);
}

/// A value whose keys are written in the order of a list: of [`KEYWORDS`], or, for properties, of the type's fields, which
/// is that of `required`.
struct Ordered<'a>(&'a Value, Vec<&'a str>);

impl Serialize for Ordered<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::Object(map) => {
                let mut keys: Vec<&String> = map.keys().collect();
                keys.sort_by_key(|key| self.1.iter().position(|k| k == key).unwrap_or(usize::MAX));
                serializer.collect_map(keys.into_iter().map(|key| {
                    let fields =
                        map.get("required").and_then(Value::as_array).filter(|_| key == "properties");
                    let order = fields
                        .map_or(KEYWORDS.to_vec(), |names| names.iter().flat_map(Value::as_str).collect());
                    (key, Ordered(&map[key], order))
                }))
            }
            Value::Array(items) => {
                serializer.collect_seq(items.iter().map(|i| Ordered(i, KEYWORDS.to_vec())))
            }
            other => other.serialize(serializer),
        }
    }
}

#[test]
fn the_published_schema_is_that_of_the_types() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/report.schema.json");
    let wanted = pretty(&Ordered(&of::<Report>(), KEYWORDS.to_vec()));
    if std::env::var_os("NEARFAR_UPDATE_DOCS").is_some() {
        std::fs::write(path, &wanted).unwrap();
    }
    let text = std::fs::read_to_string(path).unwrap();
    let different = text.lines().zip(wanted.lines()).position(|(a, b)| a != b);
    assert!(
        text == wanted,
        "docs/report.schema.json is not of today, from line {} on: \
         NEARFAR_UPDATE_DOCS=1 cargo test -p nearfar-report --test schema writes it",
        different.unwrap_or_else(|| text.lines().count().min(wanted.lines().count())) + 1
    );
}
