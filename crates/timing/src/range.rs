//! How far the time can be off if the machine's figures are: each class of
//! figures is moved to both ends of what its confidence allows, all else unchanged,
//! and the changes are added as independent errors are, by their squares. What the
//! model itself leaves out is not in it.

use super::epoch::epoch_time;
use super::parameters::{Bias, Class, Parameters};
use super::value::EpochTime;
use super::work::Work;
use nearfar_machine::Machine;
use nearfar_machine::needs::Missing;

/// Most pieces of work that are timed again. Of more, so many are taken that stand
/// for equal parts of the time.
const MOST: usize = 48;

/// Low and high end, ns, of all pieces with their times.
pub(super) fn range(
    machine: &Machine,
    pieces: &[Work],
    timed: &[EpochTime],
) -> Result<(f64, f64), Vec<Missing>> {
    let ns: f64 = timed.iter().map(|t| t.ns).sum();
    let chosen = choose(timed, ns);
    let base: f64 = chosen.iter().map(|&i| timed[i].ns).sum();
    if base <= 0.0 {
        return Ok((ns, ns));
    }
    let (mut faster, mut slower) = (0.0, 0.0);
    for class in Class::ALL {
        for better in [true, false] {
            let parameters = Parameters::biased(machine, Some(Bias { class, better }))?;
            let moved: f64 = chosen.iter().map(|&i| epoch_time(&parameters, &pieces[i]).ns).sum();
            let change = moved / base - 1.0;
            if change < 0.0 {
                faster += change * change;
            } else {
                slower += change * change;
            }
        }
    }
    Ok((ns * (1.0 - f64::sqrt(faster)).max(0.0), ns * (1.0 + f64::sqrt(slower))))
}

/// Every piece, or those in the middle of [`MOST`] equal parts of the time; a long
/// piece stands for several parts, as often as it is listed.
pub(super) fn choose(timed: &[EpochTime], ns: f64) -> Vec<usize> {
    if timed.len() <= MOST {
        return (0..timed.len()).collect();
    }
    let mut chosen = Vec::with_capacity(MOST);
    let mut until = 0.0;
    for (i, t) in timed.iter().enumerate() {
        until += t.ns;
        while chosen.len() < MOST && (chosen.len() as f64 + 0.5) * ns / MOST as f64 <= until {
            chosen.push(i);
        }
    }
    chosen
}
