//! Devices whose place matters.

use crate::NodeId;
use crate::cpulist::{CpuList, NodeList};
use serde::{Deserialize, Serialize};

/// What a device is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DeviceKind {
    /// Network interface.
    Nic,
    /// InfiniBand or RoCE adapter.
    Infiniband,
    /// NVMe drive.
    Nvme,
    /// Graphics processor, or another PCI display controller.
    Gpu,
    /// Another processor on PCI.
    Accelerator,
    /// CXL memory device.
    Cxl,
}

/// A device whose place matters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Device {
    /// What it is.
    pub kind: DeviceKind,
    /// The kernel's name (`eth0`), or the PCI address where it has none.
    pub name: String,
    /// PCI address.
    pub pci: Option<String>,
    /// The node it is attached to.
    pub node: Option<NodeId>,
    /// From the host bridge to the device, as sysfs names them; empty if unknown.
    pub path: Vec<String>,
    /// Its message-signalled interrupts.
    pub interrupts: Option<Interrupts>,
    /// Where `node` is from; null without a node.
    #[serde(default)]
    pub node_source: Option<NodeSource>,
    /// What the driver of a GPU tells; null for others, and where it tells nothing.
    #[serde(default)]
    pub gpu: Option<Gpu>,
}

/// What says which node a device is attached to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NodeSource {
    /// The kernel.
    Sysfs,
    /// NVIDIA's driver, which names one node as the nearest memory.
    NvmlMemoryAffinity,
    /// NVIDIA's driver, which names cpus of one node as the nearest.
    NvmlCpuAffinity,
}

/// A GPU, as its driver's library (NVML) describes it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Gpu {
    /// `NVIDIA H200`.
    pub product: Option<String>,
    /// Its own memory, in units of 1024 bytes.
    pub memory_kb: Option<u64>,
    /// The nodes whose memory is nearest.
    pub near_nodes: Option<NodeList>,
    /// The cpus that are nearest.
    pub near_cpus: Option<CpuList>,
    /// The way to each other GPU.
    pub links: Vec<GpuLink>,
}

/// The way from one GPU to another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GpuLink {
    /// PCI address of the other.
    pub to: String,
    /// NVLinks between them, direct or through a switch; 0 if there are none.
    pub nvlinks: Option<u32>,
    /// The way over PCI in the words of `nvidia-smi topo -m`: `PIX`, `PXB`, `PHB`, `NODE` or `SYS`.
    pub pci: Option<String>,
}

/// Interrupts of a device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interrupts {
    /// How many.
    pub count: usize,
    /// The cpus that serve them; unknown if none of them tells.
    pub cpus: Option<CpuList>,
}
