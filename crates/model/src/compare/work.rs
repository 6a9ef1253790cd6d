//! Whether two recordings are of the same work: else less time, or less of it far, is no merit of a change.

use super::warnings::compared;
use crate::analyze::Report;

/// Largest difference of the instructions of what counts as the same work. A repair of placement changes how memory is
/// first touched, and how long threads wait for each other, not what is computed. // chosen
const SAME_WORK: f64 = 0.1;

/// Why they are not known to have done the same work.
pub fn differs(before: &Report, after: &Report) -> Result<(), String> {
    if let (Some(b), Some(a)) = (&before.exit, &after.exit)
        && b != a
    {
        return Err(format!("one ended with {b}, the other with {a}"));
    }
    // Counts know better than words.
    if let (Some(b), Some(a)) = (instructions(before), instructions(after)) {
        let ratio = a as f64 / b as f64;
        return match (ratio - 1.0).abs() <= SAME_WORK {
            true => Ok(()),
            false => Err(format!(
                "the second executed {} instructions, the first {}: {:.2} times as many",
                many(a),
                many(b),
                ratio
            )),
        };
    }
    match same_words(&before.command, &after.command) {
        true => Ok(()),
        false => Err("their arguments differ, and instructions were not counted in both".to_owned()),
    }
}

/// Instructions of all cpus, where they were counted.
fn instructions(r: &Report) -> Option<u64> {
    let counted = r.counters.as_ref()?;
    Some(counted.cpus.iter().map(|c| c.instructions).sum::<u64>()).filter(|&n| n > 0)
}

/// `1.23e9`, as digits with a unit that reads itself.
fn many(n: u64) -> String {
    match n as f64 {
        n if n >= 1e9 => format!("{:.2} billion", n / 1e9),
        n if n >= 1e6 => format!("{:.2} million", n / 1e6),
        n => format!("{n:.0}"),
    }
}

/// Whether the arguments are the same, the program's own folder and name aside: a repaired program may have another.
/// Folders of arguments count: `small/in.dat` and `large/in.dat` are other inputs.
/// What stands before a command (numactl, env, a launcher) is not its argument.
fn same_words(before: &[String], after: &[String]) -> bool {
    let (b, a) = (compared(before), compared(after));
    if b.is_empty() || a.is_empty() {
        // Attached: nobody knows.
        return true;
    }
    match b.len() == a.len() {
        true => b[1..] == a[1..],
        false => b.ends_with(&a) || a.ends_with(&b),
    }
}

#[cfg(test)]
mod tests {
    use super::same_words;

    fn same(before: &str, after: &str) -> bool {
        let words = |s: &str| s.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        same_words(&words(before), &words(after))
    }

    #[test]
    fn launchers_and_the_programs_folder_and_name_are_no_arguments() {
        assert!(same("./a 10 x", "/tmp/build/b 10 x"));
        assert!(same("./a 10", "numactl --interleave=all ./a 10"));
        assert!(same("env OMP_NUM_THREADS=2 /bin/a 10", "a 10"));
        assert!(same("numactl -i all old/a 10 in/x", "numactl -i all new/a 10 in/x"));
        assert!(same("./a ./in//x.dat", "./a in/x.dat"));
        assert!(same("", "./a 10"));
    }

    #[test]
    fn a_file_of_another_folder_is_another_input() {
        assert!(!same("./a small/in.dat", "./a large/in.dat"));
        assert!(!same("./a --in=/x/y", "./a --in=/z/y"));
        assert!(!same("./a in.dat", "numactl -i all ./a other/in.dat"));
        assert!(!same("numactl -i all ./a small/in.dat", "numactl -i all ./a large/in.dat"));
    }

    #[test]
    fn other_arguments_are_other_work() {
        assert!(!same("./a 10", "./a 20"));
        assert!(!same("./a 10", "./a"));
        assert!(!same("./a 10", "numactl -i all ./a 20"));
        assert!(!same("./a", "numactl -i all ./b"));
    }
}
