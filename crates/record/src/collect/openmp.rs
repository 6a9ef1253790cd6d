//! The settings of OpenMP runtimes for threads and cpus: those we add, and those that were there already.
//!
//! OMP_NUM_THREADS, OMP_PLACES and OMP_PROC_BIND are the standard's (OpenMP 4.0 and later: GCC, LLVM,
//! Intel, NVIDIA). GOMP_CPU_AFFINITY (libgomp manual) and KMP_AFFINITY (Intel's guide) say the same in
//! their own words and would win, so they are set too; MP_BLIST with MP_BIND are the older PGI
//! compilers', O64_OMP_AFFINITY_MAP is Open64's.

use nearfar_machine::cpulist::CpuList;
use std::ffi::OsString;

/// Variables that pin thread i to the i-th cpu.
pub fn variables(count: Option<usize>, threads: &[u32]) -> Vec<(OsString, OsString)> {
    let mut all: Vec<(&str, String)> = Vec::new();
    if let Some(count) = count {
        all.push(("OMP_NUM_THREADS", count.to_string()));
        all.push(("NCPUS", count.to_string()));
    }
    if !threads.is_empty() {
        let with = |separator: &str| threads.iter().map(u32::to_string).collect::<Vec<_>>().join(separator);
        let places: Vec<String> = threads.iter().map(|cpu| format!("{{{cpu}}}")).collect();
        all.push(("OMP_PLACES", places.join(",")));
        // Thread i on place i, as long as there are as many places as threads.
        all.push(("OMP_PROC_BIND", "close".to_owned()));
        all.push(("OMP_DYNAMIC", "false".to_owned()));
        all.push(("GOMP_CPU_AFFINITY", with(" ")));
        all.push(("KMP_AFFINITY", format!("granularity=fine,explicit,proclist=[{}]", with(","))));
        all.push(("MP_BIND", "yes".to_owned()));
        all.push(("MP_BLIST", with(",")));
        all.push(("O64_OMP_AFFINITY_MAP", with(",")));
    }
    all.into_iter().map(|(name, value)| (name.into(), value.into())).collect()
}

/// Whether the caller's settings keep OpenMP threads on their cpus.
pub fn pins(variable: impl Fn(&str) -> Option<String>) -> bool {
    let set = |name: &str| variable(name).map(|v| v.trim().to_ascii_lowercase()).filter(|v| !v.is_empty());
    match set("OMP_PROC_BIND") {
        // It overrules the others.
        Some(how) => how != "false",
        None => {
            let off = |how: String| how.split(',').any(|word| matches!(word.trim(), "none" | "disabled"));
            set("OMP_PLACES").is_some()
                || set("GOMP_CPU_AFFINITY").is_some()
                || set("KMP_AFFINITY").is_some_and(|how| !off(how))
        }
    }
}

/// Settings of the caller that point elsewhere and stay, as no threads are laid out: `count` threads on the cpus
/// `threads`, if either is asked for.
pub fn contradictions(
    count: Option<usize>,
    threads: &[u32],
    cpus: &CpuList,
    variable: impl Fn(&str) -> Option<String>,
) -> Vec<String> {
    if !threads.is_empty() || cpus.is_empty() {
        return Vec::new();
    }
    let mut list = Vec::new();
    for name in ["GOMP_CPU_AFFINITY", "OMP_PLACES", "MP_BLIST", "O64_OMP_AFFINITY_MAP", "KMP_AFFINITY"] {
        let Some(value) = variable(name) else { continue };
        let outside: CpuList = numbers(name, &value).filter(|c| !cpus.contains(*c)).collect();
        if !outside.is_empty() {
            list.push(format!(
                "{name}={value} names cpus {outside}, which are not among {cpus}: the runtime will ignore or refuse \
                 them; --bind sets both"
            ));
        }
    }
    if let (Some(threads), true) = (variable("OMP_NUM_THREADS"), count.is_none())
        && let Ok(threads) = threads.trim().parse::<usize>()
        && threads > cpus.len()
    {
        list.push(format!("OMP_NUM_THREADS={threads} threads share {} cpus", cpus.len()));
    }
    list
}

/// Cpus in a list of numbers and ranges; abstract places (`cores`, `compact`) have none. Strides and
/// lengths (`{0}:4:2`) are not followed, as then fewer cpus are known than named.
fn numbers(name: &str, value: &str) -> impl Iterator<Item = u32> {
    let list = match name {
        "KMP_AFFINITY" => value.split_once("proclist=[").map_or("", |(_, list)| list),
        _ => value,
    };
    let separators = |c: char| !(c.is_ascii_digit() || c == '-' || c == ':');
    let words: Vec<u32> = list
        .split(separators)
        .filter(|word| !word.is_empty() && !word.contains(':'))
        .filter_map(|word| word.parse::<CpuList>().ok())
        .flat_map(|part| part.iter().collect::<Vec<_>>())
        .collect();
    words.into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_runtime_is_told_the_same_order() {
        let all = variables(Some(2), &[4, 1]);
        let of = |name: &str| {
            let found = all.iter().find(|v| v.0 == name).unwrap_or_else(|| panic!("no {name}"));
            found.1.to_str().unwrap().to_owned()
        };
        assert_eq!((of("OMP_NUM_THREADS"), of("OMP_PLACES")), ("2".into(), "{4},{1}".into()));
        assert_eq!((of("GOMP_CPU_AFFINITY"), of("MP_BLIST")), ("4 1".into(), "4,1".into()));
        assert!(of("KMP_AFFINITY").ends_with("explicit,proclist=[4,1]"));
        assert!(variables(None, &[]).is_empty());
    }

    #[test]
    fn what_pins_threads_is_known() {
        let with = |set: &'static [(&'static str, &'static str)]| {
            pins(|name| set.iter().find(|s| s.0 == name).map(|s| s.1.to_owned()))
        };
        assert!(!with(&[]) && !with(&[("OMP_NUM_THREADS", "4")]) && !with(&[("OMP_PLACES", "")]));
        assert!(with(&[("OMP_PROC_BIND", "close")]) && with(&[("OMP_PLACES", "cores")]));
        assert!(with(&[("GOMP_CPU_AFFINITY", "0-3")]) && with(&[("KMP_AFFINITY", "compact,1,0")]));
        assert!(!with(&[("OMP_PROC_BIND", "FALSE"), ("OMP_PLACES", "cores")]));
        assert!(!with(&[("KMP_AFFINITY", "granularity=fine,none")]));
    }

    #[test]
    fn settings_that_point_elsewhere_are_found() {
        let cpus: CpuList = "0-3".parse().unwrap();
        let with = |name: &'static str, value: &'static str| {
            contradictions(None, &[], &cpus, move |n| (n == name).then(|| value.to_owned()))
        };
        assert!(with("GOMP_CPU_AFFINITY", "0 2 3-5")[0].contains("names cpus 4-5"));
        assert!(with("KMP_AFFINITY", "granularity=fine,proclist=[9],explicit")[0].contains("cpus 9"));
        assert!(with("OMP_PLACES", "{0},{1}").is_empty());
        assert!(with("OMP_PLACES", "cores").is_empty());
        assert!(with("KMP_AFFINITY", "compact,1,0").is_empty());
        assert!(with("OMP_NUM_THREADS", "8")[0].contains("8 threads share 4 cpus"));
    }
}
