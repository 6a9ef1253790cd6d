//! Programs compiled here, and the tools that know their symbols.

use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// Runs a tool and returns its output; None when it is not installed.
pub fn tool(name: &str, args: &[&str]) -> Option<String> {
    let output = match Command::new(name).args(args).output() {
        Ok(output) => output,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            eprintln!("SKIPPED: {name} is not installed");
            return None;
        }
        Err(error) => panic!("cannot run {name}: {error}"),
    };
    assert!(output.status.success(), "{name} {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Compiles `source` in `dir`; None when the compiler is not installed.
pub fn compile(dir: &TempDir, compiler: &str, file: &str, source: &str, flags: &[&str]) -> Option<PathBuf> {
    let input = dir.path().join(file);
    // Rewriting an unchanged source would make it newer than binaries made from it.
    if std::fs::read_to_string(&input).ok().as_deref() != Some(source) {
        std::fs::write(&input, source).unwrap();
    }
    let output =
        dir.path().join(format!("{file}{}{compiler}", flags.concat().replace(['/', ',', '=', '.'], "_")));
    let (input, output_text) = (input.to_str().unwrap(), output.to_str().unwrap());
    let mut args = vec![input, "-g", "-o", output_text];
    args.extend(flags);
    if compiler == "gfortran" {
        // Modules go to the working directory else, which all tests share.
        args.extend(["-J", dir.path().to_str().unwrap()]);
    }
    tool(compiler, &args)?;
    Some(output)
}

pub fn hex(text: &str) -> u64 {
    u64::from_str_radix(text, 16).unwrap()
}

pub fn strip(path: &Path, args: &[&str]) -> PathBuf {
    let output = path.with_extension(format!("stripped{}", args.concat()));
    let mut all = args.to_vec();
    all.extend([path.to_str().unwrap(), "-o", output.to_str().unwrap()]);
    tool("strip", &all).unwrap();
    output
}

/// Instruction addresses of the disassembled functions, by function.
pub fn disassembly(path: &Path) -> Option<Vec<(String, Vec<u64>)>> {
    let text = tool("objdump", &["-d", "--no-show-raw-insn", "-j", ".text", path.to_str().unwrap()])?;
    let mut functions: Vec<(String, Vec<u64>)> = Vec::new();
    for line in text.lines() {
        if let Some((_, name)) = line.strip_suffix(">:").and_then(|l| l.split_once(" <")) {
            functions.push((name.to_owned(), Vec::new()));
        } else if let Some((address, rest)) = line.trim_start().split_once(":\t")
            && !rest.is_empty()
            && let Some((_, list)) = functions.last_mut()
        {
            list.push(hex(address));
        }
    }
    Some(functions)
}

pub const C_SOURCE: &str = r#"#include <stdlib.h>
#include <string.h>
#include <stdio.h>
static double big_local_static(int i) {
    static double table[512];
    table[i & 511] += i;
    return table[(i * 7) & 511];
}
double global_array[1000] = { 1.0 };
char small;
static inline int add(int a, int b) {
    volatile int x = a;
    return x + b;
}
struct S { double *field; };
__attribute__((noinline)) int work(int n, struct S *s) {
    float *prev = (float *)malloc(n * sizeof(float));
    double *a;
    a = calloc(n, 8);
    s->field =
        malloc(n * 16);
    void *mem;
    if (posix_memalign(&mem, 64, n)) return 1;
    double *p = malloc(n * 3), *q = malloc(n * 5);
    memset(prev, n, n);
    int r = add(n, (int)a[n / 2]) + (int)big_local_static(n);
    printf("%p %p %p %p %p %p %d\n", (void*)prev, (void*)a, (void*)s->field, mem, (void*)p, (void*)q, r);
    return r;
}
int main(int argc, char **argv) {
    struct S s;
    global_array[argc] = argc;
    return work(argc * 1000, &s) == 12345;
}
"#;

pub const CPP_SOURCE: &str = r#"#include <vector>
#include <memory>
#include <cstdio>
#include <cstdlib>
namespace grid {
double cells[4096];
struct Field {
    double *data;
    size_t n;
    explicit Field(size_t n) : n(n) {
        this->data = new double[n];
    }
};
}
template <typename T> T sum(const std::vector<T> &v) {
    T s = 0;
    for (auto x : v) s += x;
    return s;
}
__attribute__((noinline)) double run(size_t n) {
    std::vector<float> prev(n);
    std::vector<double> next(n), other(n + 1);
    auto unique = std::make_unique<float[]>(n);
    double *raw = static_cast<double *>(std::malloc(n * 8));
    grid::Field field(n);
    prev.resize(n * 2);
    std::vector<double> copy = next;
    std::printf("%p %p %p %p %p %p\n", (void*)next.data(), (void*)other.data(), (void*)unique.get(), (void*)raw, (void*)field.data, (void*)copy.data());
    return sum(prev) + sum(next) + grid::cells[n & 4095] + sum(copy);
}
std::vector<double> at_start(5000);
int main(int argc, char **) {
    static int counts[300];
    counts[argc] = argc;
    return run(argc * 1000) > 1e9 ? counts[argc + 1] : 0;
}
"#;

pub const FORTRAN_SOURCE: &str = r#"module grid
  real(8), allocatable :: u(:)
  real(8) :: fixed(1000)
contains
  subroutine init(n)
    integer, intent(in) :: n
    allocate(u(n))
    u = 1
  end subroutine
end module
program stencil
  use grid
  real(8), allocatable :: a(:,:), b(:)
  real(8) :: w(2000), v(50)
  common /blk/ w, v
  call init(command_argument_count() + 100)
  allocate(a(100,100), &
           b(50))
  !$omp parallel do
  do i = 1, 50
    b(i) = i
  end do
  print *, sum(b), w(1), fixed(3), a(1,1)
end program
"#;

pub const OMP_SOURCE: &str = r#"#include <stdio.h>
double a[10000];
void init(double *x, int n) {
#pragma omp parallel for
    for (int i = 0; i < n; i++)
        x[i] = i;
}
int main(void) {
    init(a, 10000);
    printf("%f\n", a[77]);
    return 0;
}
"#;
