//! Where a program is in the roofline of its machine: operations per byte of DRAM traffic, what it
//! reached, and what the machine could at that intensity (Williams, Waterman, Patterson, "Roofline",
//! Communications of the ACM 52(4), 2009).

use super::traffic::Traffic;
use super::value::{Roof, Roofline};
use nearfar_machine::Machine;
use nearfar_timing::Time;

/// The place of what was counted; errors say in words why it is not known.
pub fn roofline(machine: &Machine, traffic: &Traffic, time: Option<&Time>) -> Result<Roofline, String> {
    let (f64_ops, f32_ops) = traffic
        .ops
        .ok_or("the recording has no floating-point operations: it was made by an earlier version")?;
    let ops = (f64_ops + f32_ops) as f64;
    let bytes = (traffic.known() + traffic.unknown) as f64 * f64::from(traffic.line_bytes);
    let flop_per_byte = (bytes > 0.0).then(|| ops / bytes);
    let gflops = time.filter(|t| t.seconds > 0.0).map(|t| ops / t.seconds / 1e9);
    let peak_gflops = peak(machine, f64_ops as f64, f32_ops as f64);
    // All memory that cpus have of their own: what a placement by the threads that use it could draw on.
    let own =
        |n: &&nearfar_timing::NodeTraffic| machine.nodes.iter().any(|m| m.id == n.node && !m.cpus.is_empty());
    let memory = time.and_then(|t| t.nodes.iter().filter(own).map(|n| n.sustained_gbs).sum::<Option<f64>>());
    let memory_gb_per_s = memory.filter(|m| m.is_finite() && *m > 0.0);
    let slope = flop_per_byte.zip(memory_gb_per_s).map(|(intensity, rate)| intensity * rate);
    let (roof_gflops, roof) = match (slope, peak_gflops) {
        (Some(slope), Some(peak)) if slope < peak => (Some(slope), Some(Roof::Memory)),
        (Some(_), Some(peak)) => (Some(peak), Some(Roof::Arithmetic)),
        _ => (None, None),
    };
    Ok(Roofline { f64_ops, f32_ops, flop_per_byte, gflops, peak_gflops, memory_gb_per_s, roof_gflops, roof })
}

/// What all cores compute at most in this mix of precisions.
fn peak(machine: &Machine, f64_ops: f64, f32_ops: f64) -> Option<f64> {
    let rate = |figure: &Option<nearfar_machine::figures::Figure>| figure.as_ref().map(|f| f.value);
    let core = &machine.figures.core;
    let cores: usize = machine.nodes.iter().map(|n| machine.cores_of(n.id).len()).sum();
    let time = |ops: f64, rate: Option<f64>| if ops > 0.0 { rate.map(|r| ops / r) } else { Some(0.0) };
    let seconds = time(f64_ops, rate(&core.f64_gflops))? + time(f32_ops, rate(&core.f32_gflops))?;
    (seconds > 0.0).then(|| (f64_ops + f32_ops) / seconds * cores as f64)
}
