//! What a program is written in, as far as advice depends on it.

use nearfar_recording::{Columns, Modules, Symbols};

/// What advice can speak of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Program {
    /// It uses an OpenMP runtime: loops have schedules.
    pub openmp: bool,
    /// A runtime gives it its memory.
    pub managed: Option<Managed>,
    /// It ran before it was recorded.
    pub before: bool,
}

/// A runtime that allocates, moves and frees memory on behalf of a program: pages cannot be placed by the lines of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Managed {
    /// A Java virtual machine, which knows nodes itself.
    Java,
    /// Go.
    Go,
    /// V8: Node and others.
    V8,
    /// Erlang's virtual machine, which Elixir runs on, too.
    Erlang,
    /// Python: its libraries allocate arrays in C, and no line of the program is theirs.
    Python,
}

/// OpenMP's runtimes: GNU's, LLVM's and Intel's.
const OPENMP: [&str; 3] = ["libgomp.", "libomp.", "libiomp5."];

impl Program {
    /// From the files that were mapped and the functions that were seen.
    pub fn of(modules: &Modules, symbols: &Symbols) -> Program {
        let names = || modules.path.iter().map(|path| path.rsplit('/').next().unwrap_or(path));
        let function = |holds: &dyn Fn(&str) -> bool| (0..symbols.len()).any(|i| holds(&symbols.function[i]));
        let openmp = names().any(|name| OPENMP.iter().any(|runtime| name.starts_with(runtime)))
            // Linked statically.
            || function(&|f| f.starts_with("GOMP_") || f.starts_with("__kmpc_") || f.contains("._omp_fn"));
        let managed = if names().any(|name| name.starts_with("libjvm.")) {
            Some(Managed::Java)
        } else if names()
            .any(|name| name.starts_with("libnode.") || name == "node" || name.starts_with("libv8"))
        {
            Some(Managed::V8)
        } else if function(&|f| {
            f.starts_with("runtime.mallocgc") || f == "runtime.mstart" || f == "runtime.schedule"
        }) {
            Some(Managed::Go)
        } else if names().any(|name| name == "beam.smp") {
            Some(Managed::Erlang)
        } else if names().any(|name| name.starts_with("libpython") || name.starts_with("python")) {
            Some(Managed::Python)
        } else {
            None
        };
        Program { openmp, managed, before: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nearfar_recording::{Module, Symbol};

    fn of(paths: &[&str], functions: &[&str]) -> Program {
        let (mut modules, mut symbols) = (Modules::default(), Symbols::default());
        for (id, path) in paths.iter().enumerate() {
            let path = path.to_string();
            modules.push(Module { id: id as u32, path, build_id: String::new(), runtime: 0 });
        }
        for function in functions {
            let (function, file) = (function.to_string(), String::new());
            symbols.push(Symbol { location: 0, depth: 0, function, file, line: 0 });
        }
        Program::of(&modules, &symbols)
    }

    #[test]
    fn runtimes_are_known_by_their_files_and_functions() {
        let openmp = Program { openmp: true, ..Program::default() };
        assert_eq!(of(&["/home/me/app", "/usr/lib/x86_64-linux-gnu/libgomp.so.1.0.0"], &[]), openmp);
        assert_eq!(of(&["/opt/intel/lib/libiomp5.so"], &[]), openmp);
        assert_eq!(of(&["/home/me/app"], &["main", "GOMP_parallel"]), openmp);
        assert_eq!(
            of(&["/home/libgomp.so.1/app", "/usr/lib/libopenblasp-r0.3.21.so"], &["main"]),
            Program::default()
        );
        let managed = |managed| Program { managed: Some(managed), ..Program::default() };
        assert_eq!(of(&["/usr/lib/jvm/lib/server/libjvm.so"], &[]), managed(Managed::Java));
        assert_eq!(of(&["/usr/bin/node"], &[]), managed(Managed::V8));
        assert_eq!(of(&["/usr/lib/erlang/erts-13.1.5/bin/beam.smp"], &[]), managed(Managed::Erlang));
        assert_eq!(of(&["/home/me/app"], &["main.main", "runtime.mallocgc"]), managed(Managed::Go));
        assert_eq!(of(&["/usr/bin/python3.11", "/usr/lib/libm.so.6"], &[]), managed(Managed::Python));
    }
}
