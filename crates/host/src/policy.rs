//! Memory policies of a process, as set_mempolicy(2) takes them.

use libc::{c_int, c_ulong};
use nearfar_machine::NodeId;
use nearfar_machine::cpulist::NodeList;
use serde::{Deserialize, Serialize};
use std::io;

/// MPOL_PREFERRED_MANY of linux/mempolicy.h, since Linux 5.15.
const MPOL_PREFERRED_MANY: c_int = 5;
/// MPOL_WEIGHTED_INTERLEAVE of linux/mempolicy.h, since Linux 6.9.
const MPOL_WEIGHTED_INTERLEAVE: c_int = 6;

/// Where new pages go.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Policy {
    /// On these nodes and no other.
    Bind(NodeList),
    /// In turns on these nodes.
    Interleave(NodeList),
    /// In turns, so many each as the kernel's weights say.
    WeightedInterleave(NodeList),
    /// On this node while it has free memory.
    Preferred(NodeId),
    /// On these nodes while they have free memory.
    PreferredMany(NodeList),
    /// On the node of the thread that touches first.
    Local,
}

impl Policy {
    /// In words, behind "memory".
    pub fn words(&self) -> String {
        let nodes = |list: &NodeList| match list.len() {
            1 => format!("node {list}"),
            _ => format!("nodes {list}"),
        };
        match self {
            Policy::Bind(list) => format!("bound to {}", nodes(list)),
            Policy::Interleave(list) => format!("interleaved over {}", nodes(list)),
            Policy::WeightedInterleave(list) => {
                format!("interleaved over {} by the kernel's weights", nodes(list))
            }
            Policy::Preferred(node) => format!("preferred on node {node}"),
            Policy::PreferredMany(list) => format!("preferred on {}", nodes(list)),
            Policy::Local => "on the node of the thread that touches it first".to_owned(),
        }
    }

    /// Nodes on which pages may not be; `None` if any node will do.
    pub fn only(&self) -> Option<&NodeList> {
        match self {
            Policy::Bind(list) | Policy::Interleave(list) | Policy::WeightedInterleave(list) => Some(list),
            _ => None,
        }
    }

    /// The nodes that it names.
    pub fn nodes(&self) -> NodeList {
        match self {
            Policy::Preferred(node) => (*node..=*node).into(),
            Policy::PreferredMany(list) => list.clone(),
            Policy::Local => NodeList::default(),
            _ => self.only().cloned().unwrap_or_default(),
        }
    }

    /// For [`Prepared::set`].
    pub fn prepare(&self) -> Prepared {
        let mode = match self {
            Policy::Bind(_) => libc::MPOL_BIND,
            Policy::Interleave(_) => libc::MPOL_INTERLEAVE,
            Policy::WeightedInterleave(_) => MPOL_WEIGHTED_INTERLEAVE,
            Policy::Preferred(_) => libc::MPOL_PREFERRED,
            Policy::PreferredMany(_) => MPOL_PREFERRED_MANY,
            Policy::Local => libc::MPOL_LOCAL,
        };
        let nodes = self.nodes();
        let bits = c_ulong::BITS;
        let mut mask: Vec<c_ulong> = vec![0; nodes.last().map_or(0, |last| last / bits + 1) as usize];
        for node in nodes.iter() {
            mask[(node / bits) as usize] |= 1 << (node % bits);
        }
        Prepared { mode, mask }
    }

    /// Whether the kernel takes it, tried on a thread that ends at once.
    ///
    /// # Errors
    /// In words, with what to do instead.
    pub fn try_here(&self) -> Result<(), String> {
        let prepared = self.prepare();
        let tried = std::thread::scope(|scope| {
            scope.spawn(|| prepared.set()).join().unwrap_or_else(|p| std::panic::resume_unwind(p))
        });
        let Err(error) = tried else { return Ok(()) };
        let instead = match (self, error.raw_os_error()) {
            (Policy::WeightedInterleave(_), Some(libc::EINVAL)) => {
                "; weighted interleave needs Linux 6.9, --interleave does without weights"
            }
            (Policy::PreferredMany(_), Some(libc::EINVAL)) => {
                "; several preferred nodes need Linux 5.15, --preferred takes one"
            }
            (_, Some(libc::EPERM | libc::ENOSYS)) => {
                "; a container's seccomp profile forbids set_mempolicy (docker run --cap-add SYS_NICE)"
            }
            _ => "",
        };
        Err(format!("the kernel refuses memory {}: {error}{instead}", self.words()))
    }
}

/// Whether pages can be made before they are touched, which weights of an object need: the agent makes them.
///
/// # Errors
/// In words, with what to do instead.
pub fn try_populating() -> Result<(), String> {
    // SAFETY: no bytes; the kernel looks at the advice first.
    match unsafe { libc::madvise(std::ptr::null_mut(), 0, libc::MADV_POPULATE_WRITE) } {
        0 => Ok(()),
        _ => Err("`weights` needs Linux 5.14 (MADV_POPULATE_WRITE); interleave does without them".to_owned()),
    }
}

/// A policy as the system call wants it; nothing is allocated when it is set.
#[derive(Clone, Debug)]
pub struct Prepared {
    mode: c_int,
    mask: Vec<c_ulong>,
}

impl Prepared {
    /// Mode (MPOL_*) and node mask, as mbind(2) takes them too.
    pub fn parts(&self) -> (c_int, &[c_ulong]) {
        (self.mode, &self.mask)
    }

    /// Makes it the calling thread's, and its children's. May be called between fork and exec.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn set(&self) -> io::Result<()> {
        let bits = self.mask.len() as c_ulong * c_ulong::from(c_ulong::BITS);
        // set_mempolicy(2) takes one bit more than it reads; without nodes both are 0.
        let (mask, bits) = if bits == 0 { (std::ptr::null(), 0) } else { (self.mask.as_ptr(), bits + 1) };
        // SAFETY: the mask has as many bits as is said and lives across the call.
        match unsafe { libc::syscall(libc::SYS_set_mempolicy, self.mode, mask, bits) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_name_their_nodes_in_the_mask() {
        let list = |text: &str| text.parse::<NodeList>().unwrap();
        assert_eq!(Policy::Bind(list("0,2")).prepare().mask, [0b101]);
        assert_eq!(Policy::Preferred(65).prepare().mask, [0, 2]);
        assert!(Policy::Local.prepare().mask.is_empty());
        assert_eq!(Policy::Interleave(list("0-1")).words(), "interleaved over nodes 0-1");
        assert_eq!(Policy::Local.only(), None);
    }

    #[test]
    fn the_kernel_takes_local_and_refuses_nodes_that_are_not_there() {
        Policy::Local.try_here().unwrap();
        let why = Policy::Bind((1000..=1000).into()).try_here().unwrap_err();
        assert!(why.contains("bound to node 1000"), "{why}");
    }
}
