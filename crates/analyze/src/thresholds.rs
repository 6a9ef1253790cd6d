//! What a report draws its lines at, in several places.

/// Remote share of all time that separates clean from affected. Below a tenth even memory of
/// infinite speed on the far side would save less than a tenth of the time. // chosen
pub const THRESHOLD: f64 = 0.10;
/// Largest share of memory samples whose page's node is unknown for "clean".
pub const MOST_UNKNOWN: f64 = 0.25;
/// Gains below this are not worth a change. // chosen (the bound)
pub const WORTH: f64 = 0.03;
/// Among repairs that gain the same within this, the one that makes fewer lines remote. // chosen
pub const SAME: f64 = 0.01;
/// Longest lists in a report.
pub const MOST_ROWS: usize = 500;

/// What a prediction leaves out, as a part of the time now: caches hold other lines once memory is
/// elsewhere, and emulated runs differ. About the largest error seen without it on the programs of
/// `virtual_findings` (3.5 points). // chosen
pub(super) const MODEL: f64 = 0.06;
