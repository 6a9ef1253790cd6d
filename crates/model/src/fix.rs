//! The placement file: where single objects of a program belong. `nearfar run --placement` applies it.

use serde::{Deserialize, Serialize};

/// Version of the file.
pub const FORMAT: u32 = 1;

/// The file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fix {
    /// [`FORMAT`].
    pub format: u32,
    /// Path of the program, where it is not the command itself (a script's or a launcher's).
    pub program: Option<String>,
    /// Objects; an allocation is placed by the first whose call fits.
    #[serde(rename = "object", default)]
    pub objects: Vec<FixObject>,
}

/// An object: what a line of the source allocates, or a static variable.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FixObject {
    /// Its name, for people.
    pub name: Option<String>,
    /// `file.c:123`: the line that calls the allocating function, itself or through others; as many parts of
    /// the path as tell it apart.
    pub allocated_at: Option<String>,
    /// The static variable's name.
    #[serde(rename = "static")]
    pub variable: Option<String>,
    /// Path of the shared library whose code or variable it is; `None`: the program's.
    pub module: Option<String>,
    /// Where its pages go.
    pub policy: FixPolicy,
    /// Nodes in numactl's words; not with `local`.
    pub nodes: Option<String>,
    /// Smaller allocations stay as they are, bytes.
    #[serde(default = "least")]
    pub min_bytes: u64,
}

/// The kernel's policies (set_mempolicy(2)).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FixPolicy {
    /// On these nodes only.
    Bind,
    /// In turns on these nodes.
    Interleave,
    /// On this node while it has memory.
    Preferred,
    /// On the node of the first touch, whatever the process's policy is.
    Local,
}

/// Below this an object has hardly a page of its own.
fn least() -> u64 {
    65536
}

/// What is wrong with a placement file.
#[derive(Debug, thiserror::Error)]
pub enum FixError {
    /// Not TOML, or not of this form.
    #[error("{0}")]
    Form(#[from] toml::de::Error),
    /// Another version.
    #[error("it has format {0}; this nearfar reads format {FORMAT}")]
    Format(u32),
    /// An object that cannot be meant so.
    #[error("object {0} (counted from 1): {1}")]
    Object(usize, &'static str),
    /// Nothing in it.
    #[error("it names no [[object]]")]
    Empty,
}

impl Fix {
    /// Reads the file's text.
    ///
    /// # Errors
    /// See [`FixError`].
    pub fn from_toml(text: &str) -> Result<Fix, FixError> {
        let fix: Fix = toml::from_str(text)?;
        if fix.format != FORMAT {
            return Err(FixError::Format(fix.format));
        }
        if fix.objects.is_empty() {
            return Err(FixError::Empty);
        }
        for (at, object) in fix.objects.iter().enumerate() {
            let wrong = match (&object.allocated_at, &object.variable, object.policy, &object.nodes) {
                (Some(_), Some(_), ..) => Some("`allocated_at` and `static` are of different objects"),
                (None, None, ..) => Some("it needs `allocated_at = \"file.c:123\"` or `static = \"name\"`"),
                (_, _, FixPolicy::Local, Some(_)) => Some("`local` takes no `nodes`"),
                (_, _, policy, None) if policy != FixPolicy::Local => Some("its policy needs `nodes`"),
                (Some(line), ..) if split(line).is_none() => {
                    Some("`allocated_at` is a file and a line: \"file.c:123\"")
                }
                _ => None,
            };
            if let Some(why) = wrong {
                return Err(FixError::Object(at + 1, why));
            }
        }
        Ok(fix)
    }
}

impl FixObject {
    /// File and line of `allocated_at`.
    pub fn line(&self) -> Option<(&str, u32)> {
        split(self.allocated_at.as_deref()?)
    }

    /// What to call it.
    pub fn label(&self) -> &str {
        let place = self.variable.as_deref().or(self.allocated_at.as_deref());
        self.name.as_deref().or(place).unwrap_or("object")
    }
}

fn split(text: &str) -> Option<(&str, u32)> {
    let (file, line) = text.rsplit_once(':')?;
    Some((file, line.parse().ok().filter(|&n| n > 0 && !file.is_empty())?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_says_where_objects_belong() {
        let fix = Fix::from_toml(
            "format = 1\n[[object]]\nname = \"prev\"\nallocated_at = \"src/a.cpp:28\"\npolicy = \"interleave\"\n\
             nodes = \"0-1\"\n[[object]]\nstatic = \"grid\"\npolicy = \"local\"\n",
        )
        .unwrap();
        assert_eq!(fix.objects[0].line(), Some(("src/a.cpp", 28)));
        assert_eq!((fix.objects[0].label(), fix.objects[1].label()), ("prev", "grid"));
        assert_eq!((fix.objects[0].policy, fix.objects[0].min_bytes), (FixPolicy::Interleave, 65536));
    }

    #[test]
    fn what_cannot_be_meant_is_said() {
        let said = |text: &str| Fix::from_toml(text).unwrap_err().to_string();
        assert!(said("format = 2").contains("format 2"));
        assert!(said("format = 1").contains("no [[object]]"));
        let of = |rest: &str| said(&format!("format = 1\n[[object]]\n{rest}"));
        assert!(of("policy = \"bind\"\nnodes = \"0\"").contains("allocated_at"));
        assert!(of("static = \"a\"\npolicy = \"bind\"").contains("needs `nodes`"));
        assert!(
            of("static = \"a\"\nallocated_at = \"b:1\"\npolicy = \"local\"").contains("different objects")
        );
        assert!(of("allocated_at = \"b\"\npolicy = \"local\"").contains("a file and a line"));
        assert!(of("static = \"a\"\npolicy = \"spread\"\nnodes = \"0\"").contains("spread"));
        assert!(of("static = \"a\"\npolicy = \"local\"\nnode = \"0\"").contains("node"));
    }
}
