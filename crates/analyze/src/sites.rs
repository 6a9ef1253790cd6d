//! Naming code: from a location or a call chain to the line that its reader wrote.
//!
//! A sample or an allocation often happens inside libc, libstdc++ or an OpenMP
//! runtime. The reader can change only their own code, so such frames are
//! stepped out of; what remains when no frame is left is the runtime's function,
//! marked as such.

use super::hash::{FastMap, IdIndex};
use super::input::Input;
use super::names;
use nearfar_recording::{KERNEL_MODULE, NONE, PYTHON_MODULE};

/// Index of a [`Site`] in [`Sites`].
pub type SiteId = u32;

/// A place in the code, as reports name it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Site {
    /// `file:line`, else `module+0xoffset`.
    pub at: Option<String>,
    /// Function; one that was inlined names the one around it as well.
    pub function: Option<String>,
    /// The real function, which is `function` unless that was inlined.
    pub outer: Option<String>,
    /// Position of the module in the modules table.
    pub module: Option<u32>,
    /// Whether it is in a runtime because no frame of the program's own code is known.
    pub runtime: bool,
}

/// A function of which neither name nor file is known.
pub const NAMELESS: &str = "?";

/// Key of a row of functions: the site's function, or else its place, and its module.
pub fn function_of(site: &Site) -> (&str, Option<u32>) {
    let name = site.function.as_deref().or(site.at.as_deref()).unwrap_or(NAMELESS);
    (name, site.module)
}

/// User frames that are kept of a call chain: a line of the program, and those that called for it. // assumed
const MOST_FRAMES: usize = 8;

/// A line of the program in a call chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UserFrame {
    /// The line.
    pub site: SiteId,
    /// Location of the instruction, by id.
    pub location: u32,
    /// Which of the functions that were inlined there: the symbols' depth.
    pub depth: u16,
}

/// All sites of a recording, computed once: samples only index.
#[derive(Debug, Default)]
pub struct Sites {
    sites: Vec<Site>,
    ids: FastMap<Site, SiteId>,
    locations: IdIndex,
    /// Per location: the user frames in it, of inlined functions first; none if it has none.
    user: Vec<Vec<UserFrame>>,
    /// Per location: the innermost function, whatever it is.
    raw: Vec<SiteId>,
    in_runtime: Vec<bool>,
    /// Per location: whether it is a line of Python.
    python: Vec<bool>,
    allocator: Vec<bool>,
    /// Per location: whose memory is mapped there, where an allocator does so for whatever it will be asked for.
    pool: Vec<Option<&'static str>>,
    chains: IdIndex,
    /// Per chain: its user frames, innermost first, as many as [`MOST_FRAMES`].
    chain_user: Vec<Vec<UserFrame>>,
    /// Per chain: its innermost line of a source, however far out.
    chain_line: Vec<Option<SiteId>>,
    /// By chain: whether a runtime's code called the allocator, for itself.
    chain_of_runtime: Vec<bool>,
    chain_first: Vec<u32>,
    /// The site of a location nothing is known of.
    pub unknown: SiteId,
}

impl Sites {
    /// Names every location and chain of a recording.
    pub fn new(input: &Input) -> Sites {
        let mut s = Sites { locations: IdIndex::new(&input.locations.id), ..Sites::default() };
        s.unknown = s.intern(Site { at: None, function: None, outer: None, module: None, runtime: false });
        s.name_locations(input);
        s.name_chains(input);
        s
    }

    fn intern(&mut self, site: Site) -> SiteId {
        if let Some(&id) = self.ids.get(&site) {
            return id;
        }
        let id = self.sites.len() as SiteId;
        self.sites.push(site.clone());
        self.ids.insert(site, id);
        id
    }

    fn name_locations(&mut self, input: &Input) {
        let modules = IdIndex::new(&input.modules.id);
        let n = input.locations.id.len();
        let mut frames: Vec<Vec<usize>> = vec![Vec::new(); n];
        for row in 0..input.symbols.location.len() {
            if let Some(l) = self.locations.get(input.symbols.location[row]) {
                frames[l].push(row);
            }
        }
        for (l, rows) in frames.iter_mut().enumerate() {
            rows.sort_by_key(|&r| input.symbols.depth[r]);
            let module = modules.get(input.locations.module[l]).map(|m| m as u32);
            let runtime = module.is_some_and(|m| input.modules.runtime[m as usize] == 1);
            self.python.push(module.is_some_and(|m| input.modules.path[m as usize] == PYTHON_MODULE));
            let library = module.map(|m| names::base(&input.modules.path[m as usize]));
            let place = library.map(|base| match base {
                KERNEL_MODULE => base.to_owned(),
                _ => format!("{base}+{:#x}", input.locations.file_offset[l]),
            });
            let site = |row: Option<usize>| {
                let file = row.map(|r| input.symbols.file[r].as_str()).filter(|f| !f.is_empty());
                let name =
                    |row: Option<usize>| row.map(|r| &*input.symbols.function[r]).filter(|f| !f.is_empty());
                let around = name(rows.last().copied().filter(|&r| Some(r) != row));
                let function = name(row).map(|f| match around {
                    Some(outer) => names::inlined(f, outer),
                    None => names::short(f),
                });
                let outer = around.map(names::short).or_else(|| function.clone());
                let at = match (file, row) {
                    // Users do not have the runtime's source, and cannot change a line of it: its module is shown.
                    (Some(f), _) if runtime || is_c_library(f) => library.map(str::to_owned),
                    (Some(f), Some(r)) => {
                        Some(format!("{}:{}", shorten(f, &input.meta.cwd), input.symbols.line[r]))
                    }
                    _ => place.clone(),
                };
                Site { at, function, outer, module, runtime }
            };
            let own = rows
                .iter()
                .copied()
                .filter(|&r| !is_library(&input.symbols.function[r], &input.symbols.file[r]));
            let id = input.locations.id[l];
            let user: Vec<(u16, Site)> = match (runtime, rows.is_empty()) {
                (true, _) => Vec::new(),
                (false, false) => own.map(|r| (input.symbols.depth[r], site(Some(r)))).collect(),
                // Stripped code of the program itself: the offset is the best name there is.
                (false, true) => module.map(|_| (0, site(None))).into_iter().collect(),
            };
            let raw = site(rows.first().copied());
            self.allocator.push(rows.iter().any(|&r| is_allocator(&input.symbols.function[r])));
            self.pool.push(rows.iter().find_map(|&r| pool(&input.symbols.function[r])));
            self.in_runtime.push(runtime);
            let frame = |(depth, u)| UserFrame { site: self.intern(u), location: id, depth };
            let user = user.into_iter().map(frame).collect();
            self.user.push(user);
            let raw = self.intern(raw);
            self.raw.push(raw);
        }
    }

    fn name_chains(&mut self, input: &Input) {
        let t = &input.chains;
        let mut order: Vec<u32> = (0..t.chain.len() as u32).collect();
        order.sort_by_key(|&r| (t.chain[r as usize], t.depth[r as usize]));
        let mut ids = Vec::new();
        let mut at = 0;
        while at < order.len() {
            let chain = t.chain[order[at] as usize];
            let end = at + order[at..].partition_point(|&r| t.chain[r as usize] == chain);
            let mut users: Vec<UserFrame> = Vec::new();
            let located: Vec<usize> =
                order[at..end].iter().filter_map(|&r| self.locations.get(t.location[r as usize])).collect();
            let python = located.iter().any(|&l| self.python[l]);
            let caller = located.iter().find(|&&l| !self.allocator[l]);
            self.chain_of_runtime.push(caller.is_some_and(|&l| self.in_runtime[l]));
            let mut lines = located.iter().flat_map(|&l| &self.user[l]).map(|frame| frame.site);
            self.chain_line.push(lines.find(|&site| self.has_line(site)));
            let mut in_python = false;
            for l in located {
                // A library of Python that has no lines was called by a line that can be changed.
                if self.python[l] && !in_python {
                    in_python = true;
                    users.retain(|f| self.has_line(f.site) && !self.is_interpreter(input, f.site));
                }
                users.extend(&self.user[l]);
                // The caller of the function around a parallel region is known of one of its threads only.
                let enough = users.len() >= MOST_FRAMES && (in_python || !python);
                if enough || users.last().is_some_and(|f| self.is_outlined(f.site)) {
                    break;
                }
            }
            users.truncate(MOST_FRAMES);
            ids.push(chain);
            self.chain_user.push(users);
            self.chain_first.push(t.location[order[at] as usize]);
            at = end;
        }
        self.chains = IdIndex::new(&ids);
    }

    /// A site by its id.
    pub fn get(&self, id: SiteId) -> &Site {
        &self.sites[id as usize]
    }

    /// Whether a site is known by file and line.
    pub fn has_line(&self, site: SiteId) -> bool {
        self.get(site).at.as_deref().is_some_and(|at| !at.contains("+0x"))
    }

    /// Whether the function of a site has a name.
    pub fn has_name(&self, site: SiteId) -> bool {
        self.get(site).function.as_deref().is_some_and(|f| f != NAMELESS && !f.contains("+0x"))
    }

    /// Whether a site is in the interpreter of Python itself.
    fn is_interpreter(&self, input: &Input, site: SiteId) -> bool {
        let module = self.get(site).module.and_then(|m| input.modules.path.get(m as usize));
        let name = module.map_or("", |path| names::base(path));
        name.starts_with("python") || name.starts_with("libpython")
    }

    /// Whether a site is a line of Python.
    pub fn is_python(&self, input: &Input, site: SiteId) -> bool {
        let module = self.get(site).module.and_then(|m| input.modules.path.get(m as usize));
        module.is_some_and(|path| path == PYTHON_MODULE)
    }

    /// Whether a site is in what a compiler cut out of a parallel region.
    fn is_outlined(&self, site: SiteId) -> bool {
        self.get(site).outer.as_deref().is_some_and(|f| f.ends_with(names::OUTLINED))
    }

    /// The user frames of a chain, innermost first: each was called by the next.
    pub fn frames(&self, chain: u32) -> &[UserFrame] {
        let known = if chain == NONE { None } else { self.chains.get(chain) };
        known.map_or(&[], |c| &self.chain_user[c])
    }

    /// The innermost line of a source in a call chain, however far out.
    pub fn line_of_chain(&self, chain: u32) -> Option<SiteId> {
        self.chain_line[self.chains.get(chain)?]
    }

    /// Whose memory this is, if an allocator mapped it for whatever it would be asked for: what called it then says nothing about what is in
    /// it. Known where the allocator's functions have names.
    pub fn pool(&self, chain: u32) -> Option<&'static str> {
        let first = self.chain_first[self.chains.get(chain)?];
        self.pool[self.locations.get(first)?]
    }

    /// The innermost user frame of a chain.
    pub fn of_chain(&self, chain: u32) -> Option<SiteId> {
        self.frames(chain).first().map(|f| f.site)
    }

    /// Whether an allocation with this chain was made by a runtime's code, which has what it needs for its threads there.
    pub fn is_of_runtime(&self, chain: u32) -> bool {
        let known = if chain == NONE { None } else { self.chains.get(chain) };
        known.is_some_and(|c| self.chain_of_runtime[c])
    }

    /// Where the program was: the location's own user frame, else the chain's.
    #[inline]
    pub fn of_code(&self, location: u32, chain: u32) -> Option<SiteId> {
        let l = self.locations.get(location)?;
        self.user[l].first().map(|f| f.site).or_else(|| self.of_chain(chain))
    }

    /// The function that a location is in, stepped out of nothing but library inlines.
    #[inline]
    pub fn function_of(&self, location: u32) -> SiteId {
        match self.locations.get(location) {
            Some(l) => self.user[l].first().map_or(self.raw[l], |f| f.site),
            None => self.unknown,
        }
    }

    /// Whether two locations are in one function that is not the program's own: a runtime's, or a template of a library's
    /// header.
    pub fn in_one_helper(&self, a: u32, b: u32) -> bool {
        let helper = |location: u32| {
            let l = self.locations.get(location).filter(|&l| self.user[l].is_empty())?;
            let site = self.get(self.raw[l]);
            // Without symbols it is one instruction.
            Some((site.outer.as_deref().or(site.at.as_deref())?, site.module))
        };
        helper(a).is_some_and(|one| helper(b) == Some(one))
    }

    /// The runtime function at a location, for when no caller is known.
    pub fn raw(&mut self, location: u32) -> SiteId {
        let Some(l) = self.locations.get(location) else {
            return self.unknown;
        };
        let mut site = self.sites[self.raw[l] as usize].clone();
        site.runtime = true;
        self.intern(site)
    }

    /// Whether a location is in a runtime module.
    pub fn is_runtime(&self, location: u32) -> bool {
        self.locations.get(location).is_some_and(|l| self.in_runtime[l])
    }

    /// Whether a location is in an allocator's function.
    pub fn is_allocator(&self, location: u32) -> bool {
        self.locations.get(location).is_some_and(|l| self.allocator[l])
    }
}

const OF_PYTHON: &str = "Python's small objects";
const OF_JAVA: &str = "Java's memory";
/// Functions that map memory in advance, and whose it is: CPython's arenas, by their names in several versions (Objects/obmalloc.c);
/// jemalloc (src/pages.c), in Rust's and DuckDB's programs with something before its names; mimalloc (src/prim/unix/prim.c); HotSpot
/// (os/linux/os_linux.cpp).
const POOLS: [(&str, &str); 8] = [
    ("_PyObject_ArenaMmap", OF_PYTHON),
    ("_PyObject_ArenaMalloc", OF_PYTHON),
    ("_PyMem_ArenaAlloc", OF_PYTHON),
    ("je_pages_map", "jemalloc's memory"),
    ("os_pages_map", "jemalloc's memory"),
    ("_mi_prim_alloc", "mimalloc's memory"),
    ("os::pd_commit_memory_or_exit", OF_JAVA),
    ("os::pd_commit_memory", OF_JAVA),
];

/// Whose memory a function maps in advance.
fn pool(function: &str) -> Option<&'static str> {
    let function = function.split('(').next().unwrap_or(function);
    POOLS.iter().find(|(name, _)| function.ends_with(name)).map(|(_, whose)| *whose)
}

/// The path as it is typed in `cwd`.
fn shorten<'a>(file: &'a str, cwd: &str) -> &'a str {
    let cwd = cwd.trim_end_matches('/');
    if cwd.is_empty() {
        return file;
    }
    file.strip_prefix(cwd).and_then(|f| f.strip_prefix('/')).unwrap_or(file)
}

/// Whether a frame is library code that was inlined or instantiated into the program.
fn is_library(function: &str, file: &str) -> bool {
    if file.starts_with("/usr/include/")
        || file.starts_with("/usr/lib/gcc/")
        || file.contains("/include/c++/")
        || file.contains("/include/nearfar/")
        || file.starts_with("/rustc/")
        || is_python_library(file)
        || is_c_library(file)
    {
        return true;
    }
    // A template's name begins with its return type: `void std::fill<double*>(…)`.
    let head = function.split(['<', '(']).next().unwrap_or(function);
    let name = head.rsplit(' ').next().unwrap_or(head);
    ["std::", "__gnu_cxx::"].iter().any(|p| name.starts_with(p)) || head.starts_with("operator new")
}

/// Python's own modules and installed packages: NumPy's `ones` calls its `empty` in a file of its own.
fn is_python_library(file: &str) -> bool {
    file.contains("/site-packages/")
        || file.contains("/dist-packages/")
        || file.contains("/lib/python3.")
        || file.starts_with("<frozen ")
}

/// Source files of glibc, as they are named in programs that are linked with it statically: distributions build it in a
/// directory that they call `.`.
fn is_c_library(file: &str) -> bool {
    const DIRECTORIES: [&str; 7] =
        ["./string/", "./malloc/", "./nptl/", "./elf/", "./csu/", "./stdlib/", "./libio/"];
    file.contains("/sysdeps/") || file.contains("/glibc-") || DIRECTORIES.iter().any(|d| file.starts_with(d))
}

/// Functions of malloc implementations, by the names they carry in glibc, jemalloc, tcmalloc and mimalloc.
fn is_allocator(function: &str) -> bool {
    const EXACT: [&str; 16] = [
        "malloc",
        "calloc",
        "realloc",
        "free",
        "cfree",
        "memalign",
        "aligned_alloc",
        "posix_memalign",
        "sysmalloc",
        "malloc_consolidate",
        "unlink_chunk",
        "arena_get2",
        "new_heap",
        "heap_trim",
        "systrim",
        "ptmalloc_init",
    ];
    let name = function.split(['.', '(', '@']).next().unwrap_or(function).trim_start_matches("__libc_");
    EXACT.contains(&name)
        || EXACT.contains(&name.trim_start_matches('_'))
        || [
            "_int_malloc",
            "_int_free",
            "_int_realloc",
            "_int_memalign",
            "tcache_",
            "_mi_",
            "mi_",
            "je_",
            // Rust's jemalloc, and DuckDB's.
            "_rjem_",
            "duckdb_je_",
            "tc_",
        ]
        .iter()
        .any(|p| name.starts_with(p))
        || function.starts_with("operator new")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn library_frames_are_known_by_name_or_file() {
        assert!(is_library("std::vector<double>::resize(unsigned long)", ""));
        assert!(is_library("void std::fill<double*>(double*, double*, double const&)", ""));
        assert!(is_library("operator new(unsigned long)", ""));
        assert!(is_library("f", "/usr/include/c++/14/bits/stl_algo.h"));
        assert!(is_library("parallel_fill<double>", "/home/u/nearfar/include/nearfar/parallel.hpp"));
        assert!(is_library("ones", "/usr/lib/python3/dist-packages/numpy/core/numeric.py"));
        assert!(is_library("_call_with_frames_removed", "<frozen importlib._bootstrap>"));
        assert!(!is_library("<module>", "/home/u/python/solve.py"));
        assert!(!is_library("solve(std::vector<double>&)", "solve.cpp"));
        assert!(!is_library("main", "/home/u/main.c"));
    }

    #[test]
    fn allocator_functions_are_known() {
        for f in
            ["malloc", "_int_malloc", "__libc_calloc", "sysmalloc", "_int_malloc.part.0", "__libc_malloc"]
        {
            assert!(is_allocator(f), "{f}");
        }
        for f in ["memset", "main", "allocate_grid", "init"] {
            assert!(!is_allocator(f), "{f}");
        }
    }

    #[test]
    fn memory_that_an_allocator_maps_in_advance_is_its_own() {
        assert_eq!(pool("_rjem_je_pages_map"), Some("jemalloc's memory"));
        assert_eq!(pool("_PyObject_ArenaMmap"), Some("Python's small objects"));
        assert_eq!(pool("os::pd_commit_memory(char*, unsigned long, bool)"), Some("Java's memory"));
        assert_eq!(pool("map_pages"), None);
    }

    #[test]
    fn paths_are_shortened_under_the_working_directory_only() {
        assert_eq!(shorten("/home/u/p/src/a.c", "/home/u/p"), "src/a.c");
        assert_eq!(shorten("/home/u/pq/a.c", "/home/u/p"), "/home/u/pq/a.c");
        assert_eq!(shorten("a.c", ""), "a.c");
    }
}
