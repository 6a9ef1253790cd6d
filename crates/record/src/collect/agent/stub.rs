//! Shared objects without any code or symbol, written by hand: for loaders that cannot load the agent
//! and would complain of a file of the wrong word size, and to ask our own loader where it looks.

/// Word sizes and machines of an empty shared object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// 32 bits, i386.
    I386,
    /// 32 bits, x86-64 (x32).
    X32,
    /// 64 bits, x86-64.
    X64,
}

const ET_DYN: u64 = 3;
const PT_LOAD: u64 = 1;
const PT_DYNAMIC: u64 = 2;
/// Says that no executable stack is needed; without it, one is.
const PT_GNU_STACK: u64 = 0x6474_e551;
const READ_WRITE: u64 = 6;
const DT_HASH: u64 = 4;
const DT_STRTAB: u64 = 5;
const DT_SYMTAB: u64 = 6;
const DT_STRSZ: u64 = 10;
const DT_SYMENT: u64 = 11;

/// The file: ELF header, three program headers, dynamic section, hash table, symbol table with the one
/// empty entry that each has, string table. All of it is one writable segment at address 0: loaders
/// before glibc 2.35 write into the dynamic section.
pub(super) fn shared_object(kind: Kind) -> Vec<u8> {
    let wide = kind == Kind::X64;
    let word = if wide { 8 } else { 4 };
    let (header, program, symbol) = if wide { (64, 56, 24) } else { (52, 32, 16) };
    let dynamic = (header + 3 * program as u64).next_multiple_of(8);
    let dynamic_bytes = 6 * 2 * word as u64;
    let hash = dynamic + dynamic_bytes;
    let symbols = hash + 16;
    let strings = symbols + symbol;
    let size = strings + 8;

    let mut out = Vec::with_capacity(size as usize);
    let mut put = |value: u64, bytes: usize| out.extend(&value.to_le_bytes()[..bytes]);
    // e_ident: magic, class, little-endian, version 1; then zeros.
    put(0x464c_457f, 4);
    put(if wide { 2 } else { 1 }, 1);
    put(1, 1);
    put(1, 1);
    put(0, 8);
    put(0, 1);
    put(ET_DYN, 2);
    put(if kind == Kind::I386 { 3 } else { 62 }, 2);
    put(1, 4);
    put(0, word); // no entry point
    put(header, word); // program headers follow
    put(0, word); // no sections
    put(0, 4);
    for number in [header, program as u64, 3, 0, 0, 0] {
        put(number, 2);
    }
    for (kind, offset, bytes, align) in
        [(PT_LOAD, 0, size, 4096), (PT_DYNAMIC, dynamic, dynamic_bytes, 8), (PT_GNU_STACK, 0, 0, 16)]
    {
        put(kind, 4);
        if wide {
            put(READ_WRITE, 4);
        }
        for number in [offset, offset, offset, bytes, bytes] {
            put(number, word);
        }
        if !wide {
            put(READ_WRITE, 4);
        }
        put(align, word);
    }
    put(0, (dynamic - header - 3 * program as u64) as usize);
    for (tag, value) in [
        (DT_HASH, hash),
        (DT_STRTAB, strings),
        (DT_SYMTAB, symbols),
        (DT_STRSZ, 1),
        (DT_SYMENT, symbol),
        (0, 0),
    ] {
        put(tag, word);
        put(value, word);
    }
    // One bucket and one chain, both empty.
    for number in [1, 1, 0, 0] {
        put(number, 4);
    }
    for _ in 0..symbol {
        put(0, 1);
    }
    put(0, 8);
    debug_assert_eq!(out.len() as u64, size);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use object::{Object, ObjectSymbolTable};

    #[test]
    fn they_are_shared_objects_without_anything() {
        for (kind, bits, architecture) in [
            (Kind::I386, false, object::Architecture::I386),
            (Kind::X32, false, object::Architecture::X86_64_X32),
            (Kind::X64, true, object::Architecture::X86_64),
        ] {
            let bytes = shared_object(kind);
            let file = object::File::parse(&*bytes).unwrap();
            assert_eq!((file.is_64(), file.architecture()), (bits, architecture));
            assert_eq!(file.kind(), object::ObjectKind::Dynamic);
            assert!(file.dynamic_symbol_table().is_none_or(|t| t.symbols().next().is_none()));
        }
    }
}
