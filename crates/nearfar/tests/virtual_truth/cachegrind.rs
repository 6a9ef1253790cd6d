//! The first-level cache against `valgrind --tool=cachegrind` with the same geometry.

use crate::common::{has, text};
use crate::lab::{Lab, c, guest_works, one_machine, within};
use nearfar_record::store::open;
use std::process::Command;

/// Strides that conflict, and addresses without a pattern: millions of misses, next to which
/// the dynamic linker's (which cachegrind counts and the region from main on does not) vanish.
const MIX: &str = r#"
#include <stdio.h>
#include <stdlib.h>
enum { N = 192, WORDS = 1 << 17 };
static double a[N][N], b[N][N], c[N][N];
static unsigned table[WORDS];
int main(void) {
    for (int i = 0; i < N; i++) for (int j = 0; j < N; j++) a[i][j] = i + j, b[i][j] = i - j;
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++) {
            double sum = 0;
            for (int k = 0; k < N; k++) sum += a[i][k] * b[k][j];
            c[i][j] = sum;
        }
    unsigned x = 1;
    for (long i = 0; i < 2000000; i++) { x = x * 1664525u + 1013904223u; table[x >> 15]++; }
    printf("%g %u\n", c[3][5], table[77]);
    return 0;
}"#;

/// A number behind `label` in cachegrind's summary, without its commas.
fn summary(text: &str, label: &str) -> f64 {
    let line = text.lines().find(|l| l.contains(label)).unwrap_or_else(|| panic!("no `{label}` in {text}"));
    let number = line.split_once(label).unwrap().1.split_whitespace().next().unwrap();
    number.replace(',', "").parse().unwrap()
}

#[test]
fn first_level_misses_are_cachegrinds() {
    if !guest_works() || !has("valgrind") {
        return;
    }
    let _one = one_machine();
    let lab = Lab::new(1, 1, 1024);
    let mix = c(&lab.scratch, "mix", MIX);
    let peer = Command::new("valgrind")
        .args(["--tool=cachegrind", "--cache-sim=yes", "--D1=32768,8,64", "--LL=1048576,16,64"])
        .args(["--cachegrind-out-file=/dev/null", &mix])
        .output()
        .unwrap();
    assert!(peer.status.success(), "{}", text(&peer.stderr));
    let expected = summary(&text(&peer.stderr), "D1  misses:");
    let run = lab.count("r", &["--no-prefetch"], &[&mix]);
    assert_eq!(run.stdout(), text(&peer.stdout));
    let e = &open(&lab.scratch.path("r")).unwrap().input.cpu_epochs;
    let misses: u64 = e.accesses.iter().sum::<u64>() - e.l1_hits.iter().sum::<u64>();
    within(misses as f64, expected, 0.005, "misses of the first level");
}
