//! Symbol names as people write them.

/// Appended to the name of a function that a compiler cut out of an OpenMP construct.
const OUTLINED: &str = " [omp parallel]";

/// Whether `name` is in one of the mangling schemes of C++ or Rust.
pub(super) fn is_mangled(name: &str) -> bool {
    name.starts_with("_Z") || name.starts_with("_R") || name.starts_with("__Z")
}

/// Turns a symbol's or DWARF linkage name into the source's name.
///
/// - C++ and Rust names are demangled; Rust's hash is dropped.
/// - gfortran's `__module_MOD_name` becomes `module::name`.
/// - The compilers' marks for pieces of a function (`.cold`, `.part.0`, `.isra.0`,
///   `.constprop.0`, `.lto_priv.0`, `.llvm.N`) are dropped.
/// - The body of an OpenMP construct, which compilers move to a function of its own
///   (gcc: `main._omp_fn.0`, clang: `main.omp_outlined`), becomes
///   `main [omp parallel]`. The compilers use the same names for tasks. Clang before
///   17 writes only `.omp_outlined.`, which becomes `[omp parallel]`.
pub fn readable(name: &str) -> String {
    // glibc's and libstdc++'s versioned symbols: `memcpy@@GLIBC_2.14`.
    let name = name.split("@@").next().unwrap_or(name);
    // glibc's names for its own calls to what it also exports.
    let name = name.strip_prefix("__GI_").unwrap_or(name);
    let (base, outlined) = split_outlined(name);
    let base = strip_clone_marks(base);
    let shown = demangle(base);
    match (outlined, shown.is_empty()) {
        (false, _) => shown,
        (true, true) => OUTLINED.trim_start().to_owned(),
        (true, false) => shown + OUTLINED,
    }
}

fn split_outlined(name: &str) -> (&str, bool) {
    let found =
        ["._omp_fn.", ".omp_outlined", "._omp_outlined"].iter().filter_map(|mark| name.find(mark)).min();
    match found {
        Some(at) => (&name[..at], true),
        None => (name, false),
    }
}

fn strip_clone_marks(name: &str) -> &str {
    const MARKS: [&str; 7] =
        [".cold", ".part.", ".isra.", ".constprop.", ".lto_priv.", ".llvm.", ".localalias"];
    let cut = MARKS.iter().filter_map(|mark| name.find(mark)).min();
    match cut {
        // A name that is nothing but a mark keeps it.
        Some(at) if at > 0 => &name[..at],
        _ => name,
    }
}

fn demangle(name: &str) -> String {
    if let Ok(rust) = rustc_demangle::try_demangle(name) {
        return format!("{rust:#}");
    }
    if name.starts_with("_Z")
        && let Ok(symbol) = cpp_demangle::Symbol::new(name)
        && let Ok(text) = symbol.demangle()
    {
        return text;
    }
    fortran_module(name).or_else(|| cpp_path(name)).unwrap_or_else(|| name.to_owned())
}

/// The namespaces, classes and the function of a mangled C++ name of which the rest cannot be read, as cpp_demangle cannot
/// where the type that `std::fill` returns is a member of a template: `_ZSt9__fill_a1I…` → `std::__fill_a1`. By the grammar
/// of the Itanium C++ ABI, 5.1.
fn cpp_path(name: &str) -> Option<String> {
    let mut rest = name.strip_prefix("_Z")?;
    let nested = rest.strip_prefix('N').map(|inner| inner.trim_start_matches(['r', 'V', 'K', 'R', 'O']));
    rest = nested.unwrap_or(rest);
    let mut path = Vec::new();
    if let Some(inner) = rest.strip_prefix("St") {
        (path, rest) = (vec!["std"], inner);
    }
    let parents = path.len();
    while rest.starts_with(|c: char| c.is_ascii_digit()) && (nested.is_some() || path.len() == parents) {
        let (digits, behind) = rest.split_at(rest.find(|c: char| !c.is_ascii_digit())?);
        let (part, behind) = behind.split_at_checked(digits.parse().ok()?)?;
        path.push(part);
        rest = behind;
    }
    // Behind the template arguments of a nested name there may be more of it.
    let whole = nested.is_none() || rest.starts_with('E');
    (path.len() > parents && whole).then(|| path.join("::"))
}

fn fortran_module(name: &str) -> Option<String> {
    let (module, item) = name.strip_prefix("__")?.split_once("_MOD_")?;
    Some(format!("{module}::{item}"))
}

/// A static variable's name: as [`readable`], and without the number that compilers
/// append to function-local statics (`buffer.0`, clang: `main.buffer`).
pub(super) fn readable_static(name: &str) -> String {
    let cut = match name.rsplit_once('.') {
        Some((base, number)) if !base.is_empty() && number.bytes().all(|b| b.is_ascii_digit()) => base,
        _ => name,
    };
    readable(cut)
}

#[cfg(test)]
mod tests {
    use super::{readable, readable_static};

    #[test]
    fn names_are_those_of_the_source() {
        for (mangled, expected) in [
            ("main", "main"),
            ("main._omp_fn.0", "main [omp parallel]"),
            ("_Z4initPdm._omp_fn.1", "init(double*, unsigned long) [omp parallel]"),
            ("main.omp_outlined", "main [omp parallel]"),
            ("main.omp_outlined_debug__", "main [omp parallel]"),
            (".omp_outlined..2", "[omp parallel]"),
            ("_Z4sortPi.cold", "sort(int*)"),
            ("work.constprop.0.isra.0", "work"),
            ("_ZN4core3fmt5Write9write_fmt17h0123456789abcdefE", "core::fmt::Write::write_fmt"),
            (
                "_ZNSt6vectorIdSaIdEE6resizeEm",
                "std::vector<double, std::allocator<double> >::resize(unsigned long)",
            ),
            (
                "_ZSt9__fill_a1IPddEN9__gnu_cxx11__enable_ifIXsrSt11__is_scalarIT0_E7__valueEvE6__typeET_S8_RKS4_",
                "std::__fill_a1",
            ),
            ("__grid_MOD_init", "grid::init"),
            ("__GI___libc_malloc", "__libc_malloc"),
            ("_Z", "_Z"),
            ("", ""),
        ] {
            assert_eq!(readable(mangled), expected, "{mangled}");
        }
        assert_eq!(readable_static("buffer.0"), "buffer");
        assert_eq!(readable_static("_ZZ4mainE5table"), "main::table");
        assert_eq!(readable_static("__grid_MOD_u"), "grid::u");
    }
}
