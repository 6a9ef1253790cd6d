//! What fuzzing found worth keeping, fed on every check: no panic, no abort for want of memory.

use std::fs;
use std::path::Path;

/// Memory of this process, bytes: the largest that any input has asked for was more.
const MEMORY: u64 = 6 << 30;

fn feed(name: &str, target: fn(&[u8])) {
    let most = rustix::process::Rlimit { current: Some(MEMORY), maximum: Some(MEMORY) };
    rustix::process::setrlimit(rustix::process::Resource::As, most).unwrap();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(name);
    let mut files: Vec<_> = fs::read_dir(&folder).unwrap().map(|e| e.unwrap().path()).collect();
    files.sort();
    assert!(files.len() >= 3, "{}: {} files are not corpus", folder.display(), files.len());
    for file in files {
        // A failure names the file: the test prints it only then.
        println!("{}", file.display());
        target(&fs::read(&file).unwrap());
    }
}

macro_rules! targets {
    ($($name:ident,)*) => {$(
        #[test]
        fn $name() {
            feed(stringify!($name), nearfar_fuzz::$name);
        }
    )*};
}
targets! { journal, table, meta, machine, placement, topology, decoder, names, dwarf, perf_data, foreign_text, }
