//! Whether two recordings are of the same work: else less time, or less of it far, is not merit of a change.

use super::warnings::compared;
use nearfar_analyze::{Report, base};

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
    if let Some(why) = other_program(before, after) {
        return Err(why);
    }
    // Counted instructions decide, because arguments may differ for the same work.
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

/// Least part of the time that programs of different names spend in functions of the same names. // chosen
const COMMON: f64 = 0.5;

/// Why they are different programs: neither names nor functions are the same. A repaired program often has another name.
fn other_program(before: &Report, after: &Report) -> Option<String> {
    let (b, a) = (base(before.command.first()?), base(after.command.first()?));
    // What stands before a command, such as numactl, is not a program of its own.
    if b == a || before.command.len() != after.command.len() {
        return None;
    }
    let common = |r: &Report, other: &Report| {
        let all: f64 = r.functions.iter().map(|f| f.stall_share).sum();
        let known = |name: &str| other.functions.iter().any(|o| o.function == name);
        let same: f64 = r.functions.iter().filter(|f| known(&f.function)).map(|f| f.stall_share).sum();
        (all > 0.0).then_some(same / all)
    };
    let least = common(before, after)?.min(common(after, before)?);
    (least < COMMON)
        .then(|| format!("{b} and {a} are different programs: few of their functions are the same"))
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
/// The value of an option without a number says how (`--init serial`), with a number how much; a word without an option
/// may be anything.
/// What stands before a command (numactl, env, a launcher) is not its argument.
fn same_words(before: &[String], after: &[String]) -> bool {
    let (b, a) = (compared(before), compared(after));
    if b.is_empty() || a.is_empty() {
        // Attached: it is unknown.
        return true;
    }
    match b.len() == a.len() {
        true => (1..b.len()).all(|i| {
            let (x, y) = (&b[i], &a[i]);
            let option =
                b[i - 1] == a[i - 1] && b[i - 1].starts_with('-') || name(x).is_some() && name(x) == name(y);
            x == y || option && !amount(x) && !amount(y)
        }),
        false => b.ends_with(&a) || a.ends_with(&b),
    }
}

/// `--name` of `--name=value`.
fn name(word: &str) -> Option<&str> {
    word.split_once('=').map(|(name, _)| name).filter(|name| name.starts_with('-'))
}

/// Whether a word may be an amount of work: a number, or a file of input.
fn amount(word: &str) -> bool {
    word.bytes().any(|b| b.is_ascii_digit()) || word.contains('.') || word.contains('/')
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
    fn a_word_that_says_how_is_the_same_work() {
        assert!(same("./a 10 --init serial", "./a 10 --init parallel"));
        assert!(same("./a --init=serial", "./a --init=parallel"));
        assert!(!same("./a small.dat", "./a large.dat"));
        assert!(!same("./a read", "./a write"));
        assert!(!same("./a --read=all", "./a --write=all"));
    }

    #[test]
    fn other_arguments_are_other_work() {
        assert!(!same("./a 10", "./a 20"));
        assert!(!same("./a 10", "./a"));
        assert!(!same("./a 10", "numactl -i all ./a 20"));
        assert!(!same("./a", "numactl -i all ./b"));
    }
}
