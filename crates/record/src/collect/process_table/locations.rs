//! Numbers of code addresses and of call chains, and what was found out about them.

use super::{Maps, Place, ProcessTable};
use crate::store::Tables;
use nearfar_host::proc;
use nearfar_recording::*;

impl ProcessTable {
    /// The number of a code address.
    pub fn location(&mut self, space: u32, address: u64, tables: &mut Tables) -> u32 {
        if let Some((_, place)) = self.place(space, address) {
            return place.id;
        }
        let s = &mut self.spaces[space as usize];
        let id = self.location_count;
        self.location_count += 1;
        s.locations.insert(address, Place { id, access: None, spins: None });
        let (module, file_offset) = match s.map_at(address) {
            Some((start, map)) => (map.module, map.offset + (address - start)),
            None => (NONE, 0),
        };
        tables.locations.push(Location { id, process: space, address, module, file_offset });
        id
    }

    /// The number of a code address of a space that may have ended, with the mappings that it had.
    pub fn location_then(&mut self, space: u32, maps: &Maps, address: u64, tables: &mut Tables) -> u32 {
        let id = self.location_count;
        self.location_count += 1;
        let map = maps.range(..=address).next_back().filter(|(_, map)| address < map.end);
        let (module, file_offset) = match map {
            Some((start, map)) => (map.module, map.offset + (address - start)),
            None => (NONE, 0),
        };
        tables.locations.push(Location { id, process: space, address, module, file_offset });
        id
    }

    /// The one location that stands for all instructions of the kernel.
    pub fn kernel_location(&mut self, space: u32, tables: &mut Tables) -> u32 {
        if let Some(id) = self.kernel {
            return id;
        }
        let module = self.module(0, KERNEL_MODULE, proc::FileId::default(), tables);
        let id = self.location_count;
        self.location_count += 1;
        tables.locations.push(Location { id, process: space, address: 0, module, file_offset: 0 });
        self.kernel = Some(id);
        id
    }

    /// What is known of a code address, and the address space that has it: a fork's child runs its parent's code until
    /// one of the two maps something else there.
    fn place(&self, space: u32, address: u64) -> Option<(u32, Place)> {
        let own = &self.spaces[space as usize];
        let mut at = space;
        loop {
            let s = &self.spaces[at as usize];
            if let Some(&place) = s.locations.get(&address) {
                let same = at == space || own.same_code(s, address);
                return same.then_some((at, place));
            }
            at = s.parent?;
        }
    }

    /// The number of a faulting instruction, and what it does to memory; tells the collector of new ones in
    /// runtime libraries.
    pub fn fault_location(&mut self, space: u32, ip: u64, tables: &mut Tables) -> (u32, Access) {
        if let Some((_, Place { id, access: Some(access), .. })) = self.place(space, ip) {
            return (id, access);
        }
        let before = self.location_count;
        let id = self.location(space, ip, tables);
        // The same library instruction in another process is not new: a shell
        // script's hundred children all start in the same loader.
        let s = &self.spaces[space as usize];
        let (module, offset) =
            s.map_at(ip).map_or((NONE, ip), |(start, m)| (m.module, m.offset + (ip - start)));
        let known = self.faulted.get(&(module, offset)).copied();
        let access = match known {
            Some(access) if module != NONE => access,
            _ => self.with_instruction(space, ip, |decoder, code| decoder.access_at(ip, code)),
        };
        self.faulted.insert((module, offset), access);
        if id >= before && known.is_none() {
            self.new_runtime_site |= self.modules.get(module as usize).is_none_or(|m| m.runtime);
        }
        self.note(space, ip, |place| place.access = Some(access));
        (id, access)
    }

    /// The number of a call chain: `frames[0]` is where it happened, the others are return addresses.
    pub fn chain(&mut self, space: u32, frames: &[u64], tables: &mut Tables) -> u32 {
        let locations = self.locations_of(space, frames, tables);
        self.chain_of(space, locations, tables)
    }

    pub(super) fn locations_of(&mut self, space: u32, frames: &[u64], tables: &mut Tables) -> Vec<u32> {
        let mut locations = Vec::with_capacity(frames.len());
        for (depth, &frame) in frames.iter().enumerate() {
            if depth > 0 && self.spaces[space as usize].map_at(frame).is_none_or(|(_, m)| m.module == NONE) {
                break; // no code there: the frame-pointer chain ran into data
            }
            let address = if depth == 0 { frame } else { frame - 1 };
            locations.push(self.location(space, address, tables));
        }
        locations
    }

    pub(super) fn chain_of(&mut self, space: u32, locations: Vec<u32>, tables: &mut Tables) -> u32 {
        if locations.is_empty() {
            return NONE;
        }
        let key = locations.into_boxed_slice();
        let chains = &mut self.spaces[space as usize].chains;
        if let Some(&id) = chains.get(&key) {
            return id;
        }
        let next = self.chain_count;
        self.chain_count += 1;
        for (depth, &location) in key.iter().enumerate() {
            tables.chains.push(ChainFrame { chain: next, depth: depth as u16, location });
        }
        chains.insert(key, next);
        next
    }

    /// The call chain of a site key in `space` or one that it was forked from.
    pub fn site(&self, space: u32, key: u64) -> Option<u32> {
        let mut at = Some(space);
        while let Some(space) = at {
            let space = &self.spaces[space as usize];
            if let Some(&chain) = space.sites.get(&key) {
                return Some(chain);
            }
            at = space.parent;
        }
        None
    }

    /// Whether a thread at an instruction waits for others.
    pub fn spins(&mut self, space: u32, address: u64) -> bool {
        let known = self.place(space, address).and_then(|(_, place)| place.spins);
        known.unwrap_or_else(|| {
            let answer = self.is_wait_loop(space, address);
            self.note(space, address, |place| place.spins = Some(answer));
            answer
        })
    }

    /// Keeps what was found out about a code address.
    fn note(&mut self, space: u32, address: u64, change: impl FnOnce(&mut Place)) {
        let owner = self.place(space, address).map(|(owner, _)| owner);
        let places = owner.map(|owner| &mut self.spaces[owner as usize].locations);
        if let Some(place) = places.and_then(|places| places.get_mut(&address)) {
            change(place);
        }
    }
}
