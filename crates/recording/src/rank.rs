//! Which rank of which launch a recording is of.

use nearfar_machine::cpulist::CpuList;
use serde::{Deserialize, Serialize};

/// A rank as its launcher numbered it (`mpirun`, `srun`). What the launcher does not say is `null`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rank {
    /// Name of the launch, the same for all of its ranks: `slurm-1234.0`, `openmpi-1f00ba55`.
    pub launch: String,
    /// Which launcher: `Open MPI`, `Hydra`, `MVAPICH2`, `PMIx`, `PMI` or `Slurm`.
    pub launcher: String,
    /// Its number in the launch, from 0.
    pub rank: u32,
    /// Ranks of the launch.
    pub size: Option<u32>,
    /// Its number among the ranks of its host, from 0.
    pub local_rank: Option<u32>,
    /// Ranks of the launch on its host.
    pub local_size: Option<u32>,
    /// Name of its host.
    pub host: String,
    /// Cpus that the launcher gave it, before the program could change that; empty if unknown.
    pub cpus: CpuList,
}

/// Most ranks of a launch: the largest jobs there are have ten million. // chosen
pub const MOST_RANKS: u32 = 1 << 24;

impl Rank {
    /// Whether its numbers can be those of a rank.
    ///
    /// # Errors
    /// What cannot be, in words.
    pub fn check(&self) -> Result<(), String> {
        let within = |size: Option<u32>, rank: Option<u32>| match (size, rank) {
            (Some(size), Some(rank)) => rank < size && size <= MOST_RANKS,
            (size, rank) => size.max(rank).is_none_or(|n| n <= MOST_RANKS),
        };
        if within(self.size, Some(self.rank)) && within(self.local_size, self.local_rank) {
            Ok(())
        } else {
            Err(format!(
                "rank {} of {:?}, locally {:?} of {:?}",
                self.rank, self.size, self.local_rank, self.local_size
            ))
        }
    }
}
