//! Which rank of a host counts what is the host's and not a rank's. Ranks do not talk to each other: the one that makes the
//! file `counting.1` first counts. If its recorder is gone, killed or done, the one that makes `counting.2` first goes on, and
//! so on, so that a host is counted as long as one of its ranks is recorded.

use crate::store::dir::Dir;
use nearfar_host::proc;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Name of the files, before the number.
const FILE: &str = "counting.";
/// Largest such file that is read, bytes; ours have some hundred.
const MOST: u64 = 4096;

/// The recorder that counts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Elected {
    /// Its rank.
    pub rank: u32,
    /// Its process, as its own namespace numbers it.
    pub pid: u32,
    /// When that started, clock ticks after boot.
    pub start: u64,
    /// Its namespace of processes: a number of another one says nothing here.
    pub namespace: String,
}

/// A host's election, as one of its ranks takes part in it.
pub struct Election {
    dir: Option<Dir>,
    own: Elected,
    /// The one that counts, as far as is known.
    pub elected: Option<Elected>,
}

impl Election {
    /// In the directory of the host, of the recorder that this process is.
    pub fn of(host: &Path, rank: u32) -> Election {
        let pid = std::process::id();
        let start = proc::start_time(pid).unwrap_or(0);
        Election::between(host, Elected { rank, pid, start, namespace: namespace() })
    }

    fn between(host: &Path, own: Elected) -> Election {
        Election { dir: Dir::open(host).ok(), own, elected: None }
    }

    /// Whether this rank counts from now on. Where the directory cannot be written, none does.
    pub fn is_won(&mut self) -> bool {
        let Some(dir) = &self.dir else { return false };
        let number = |name: String| name.strip_prefix(FILE)?.parse::<u32>().ok();
        let latest = dir.names().unwrap_or_default().into_iter().filter_map(number).max().unwrap_or(0);
        if latest > 0 {
            let bytes = dir.read(&format!("{FILE}{latest}"), MOST).unwrap_or_default();
            self.elected = serde_json::from_slice(&bytes).ok();
            if self.elected.as_ref().is_none_or(counts_still) {
                return self.elected.as_ref() == Some(&self.own);
            }
        }
        let bytes = serde_json::to_vec(&self.own).unwrap_or_default();
        let name = format!("{FILE}{}", latest.saturating_add(1));
        let won = dir.publish(&name, &bytes).unwrap_or(false);
        // Another one may have made it in between.
        self.elected = match won {
            true => Some(self.own.clone()),
            false => dir.read(&name, MOST).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok()),
        };
        won
    }
}

fn namespace() -> String {
    std::fs::read_link("/proc/self/ns/pid").map(|link| link.display().to_string()).unwrap_or_default()
}

/// Whether that recorder lives. One whose namespace is another cannot be looked for, and is taken to live: two that count
/// would count all twice.
fn counts_still(elected: &Elected) -> bool {
    elected.namespace != namespace() || proc::start_time(elected.pid) == Some(elected.start)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_of_many_is_elected_and_another_only_when_that_one_is_gone() {
        let place = tempfile::tempdir().unwrap();
        let me = std::process::id();
        let start = proc::start_time(me).unwrap();
        let of = |rank, pid, start| {
            Election::between(place.path(), Elected { rank, pid, start, namespace: namespace() })
        };
        // A recorder that was killed: its number is another process's now, which started later.
        let mut killed = of(7, me, start + 1);
        assert!(killed.is_won());
        let all: Vec<(u32, bool, Option<u32>)> = std::thread::scope(|scope| {
            let take_part = |rank| {
                let mut election = of(rank, me, start);
                let won = election.is_won();
                (rank, won, election.elected.map(|e| e.rank))
            };
            let all: Vec<_> = (0..16).map(|rank| scope.spawn(move || take_part(rank))).collect();
            all.into_iter().map(|t| t.join().unwrap()).collect()
        });
        let won: Vec<u32> = all.iter().filter(|(_, won, _)| *won).map(|(rank, ..)| *rank).collect();
        assert_eq!(won.len(), 1, "{all:?}");
        assert!(
            all.iter().all(|(_, _, elected)| *elected == Some(won[0])),
            "those that lost know who won: {all:?}"
        );
        let mut late = of(99, me, start);
        assert!(!late.is_won());
        assert_eq!(late.elected.unwrap().rank, won[0]);
    }

    #[test]
    fn a_recorder_of_another_namespace_is_not_taken_for_dead() {
        let place = tempfile::tempdir().unwrap();
        let elsewhere = Elected { rank: 0, pid: 4_000_000, start: 1, namespace: "pid:[1]".to_owned() };
        assert!(Election::between(place.path(), elsewhere).is_won());
        assert!(!Election::of(place.path(), 1).is_won());
    }
}
