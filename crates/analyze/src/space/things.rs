//! Objects and mappings as what addresses are looked up in.

use super::{mapping_kind, position};
use crate::hash::IdIndex;
use crate::input::Input;
use crate::layer::{Span, Spans};
use nearfar_recording::{NONE, ObjectKind};
use std::mem::take;
/// Something at an address: an object, or a mapping that no object explains.
#[derive(Clone, Copy, Debug)]
pub struct Thing {
    /// Its address space (position).
    pub space: u32,
    /// Kind.
    pub kind: ObjectKind,
    /// First byte.
    pub address: u64,
    /// Size in bytes.
    pub bytes: u64,
    /// Start of life, ns.
    pub born: u64,
    /// End of life, ns.
    pub died: u64,
    /// Position in the mappings table; [`NONE`] for an object.
    pub mapping: u32,
}

/// All things: the rows of the objects table, then mappings. There may be ten million, so the columns
/// are those of the table, taken out of it.
#[derive(Debug, Default)]
pub struct Things {
    pub(super) space: Vec<u32>,
    pub(super) kind: Vec<u8>,
    pub(super) address: Vec<u64>,
    pub(super) bytes: Vec<u64>,
    pub(super) born: Vec<u64>,
    pub(super) died: Vec<u64>,
    /// Of the things behind the objects: position in the mappings table.
    pub(super) mappings: Vec<u32>,
    /// Rows of the objects table by id.
    pub rows: IdIndex,
}

impl Things {
    /// Objects with their lifetimes, and mappings. Takes what it keeps out of the tables.
    pub fn new(input: &mut Input) -> Things {
        let ids = IdIndex::new(&input.processes.id);
        let o = &mut input.objects;
        let mut things = Things {
            rows: IdIndex::new(&o.id),
            space: take(&mut o.process),
            kind: take(&mut o.kind),
            address: take(&mut o.address),
            bytes: take(&mut o.bytes),
            died: vec![u64::MAX; o.born_ns.len()],
            born: take(&mut o.born_ns),
            mappings: Vec::new(),
        };
        o.id = Vec::new();
        things.space.iter_mut().for_each(|space| *space = position(&ids, *space));
        let ends = take(&mut input.object_ends);
        for (&object, &time) in ends.object.iter().zip(&ends.time_ns) {
            if let Some(row) = things.rows.get(object) {
                let end = time.max(things.born[row].saturating_add(1));
                things.died[row] = things.died[row].min(end);
            }
        }
        things.add_mappings(input, &ids);
        things
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.address.len()
    }

    /// A thing by its id.
    #[inline]
    pub fn get(&self, id: u32) -> Thing {
        let i = id as usize;
        Thing {
            space: self.space[i],
            kind: ObjectKind::from_code(self.kind[i]).unwrap_or(ObjectKind::Anonymous),
            address: self.address[i],
            bytes: self.bytes[i],
            born: self.born[i],
            died: self.died[i],
            mapping: i.checked_sub(self.objects()).map_or(NONE, |m| self.mappings[m]),
        }
    }

    /// How many are objects.
    pub fn objects(&self) -> usize {
        self.len() - self.mappings.len()
    }

    /// Maps are read again and again: only what differs from the last look is a new thing.
    fn add_mappings(&mut self, input: &Input, ids: &IdIndex) {
        let m = &input.mappings;
        let mut order: Vec<usize> = (0..m.start.len()).collect();
        order.sort_by_key(|&i| (m.process[i], m.start[i], m.time_ns[i]));
        let mut last: Option<usize> = None;
        for i in order {
            if m.end[i] <= m.start[i] {
                continue;
            }
            let same = last.is_some_and(|l| {
                m.process[l] == m.process[i]
                    && m.start[l] == m.start[i]
                    && m.end[l] == m.end[i]
                    && m.name[l] == m.name[i]
            });
            last = Some(i);
            if same {
                continue;
            }
            self.space.push(position(ids, m.process[i]));
            self.kind.push(mapping_kind(&m.name[i], m.flags[i]) as u8);
            self.address.push(m.start[i]);
            self.bytes.push(m.end[i] - m.start[i]);
            self.born.push(m.time_ns[i]);
            self.died.push(u64::MAX);
            self.mappings.push(i as u32);
        }
    }
}

impl Spans for Things {
    #[inline]
    fn span(&self, id: u32) -> Span {
        let i = id as usize;
        let from = self.address[i];
        let to = from.saturating_add(self.bytes[i]);
        Span { from, to, born: self.born[i], died: self.died[i] }
    }
}
