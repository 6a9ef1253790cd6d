//! The instructions with most samples: where they are in their files, for who has the files.

use crate::context::Context;
use crate::counters::Counters;
use crate::hash::IdIndex;
use crate::shares::share;
use crate::sites::function_of;
use crate::value::HotInstruction;
use nearfar_recording::NONE;

/// Most instructions. // chosen: those of a few loops
const MOST: usize = 40;

/// Those of the program's files, most first.
pub(super) fn instructions(context: &Context, counters: &Counters) -> Vec<HotInstruction> {
    let input = context.input;
    let mut all: Vec<_> = counters.instructions.iter().filter(|i| *i.0 != NONE).collect();
    all.sort_by_key(|(id, sums)| (std::cmp::Reverse(sums[0]), **id));
    let locations = IdIndex::new(&input.locations.id);
    let modules = IdIndex::new(&input.modules.id);
    let row = |(id, &[weight, known, remote]): (&u32, &[u64; 3])| {
        let at = locations.get(*id)?;
        let module = modules.get(input.locations.module[at])?;
        let site = context.sites.get(context.sites.function_of(*id));
        Some(HotInstruction {
            at: site.at.clone(),
            function: function_of(site).0.to_owned(),
            module: input.modules.path[module].clone(),
            build_id: Some(input.modules.build_id[module].clone()).filter(|id| !id.is_empty()),
            file_offset: input.locations.file_offset[at],
            share: weight as f64 / counters.total.weight.max(1) as f64,
            remote_share: (known > 0 && context.finder.nodes.count > 1).then(|| share(remote, known)),
        })
    };
    all.into_iter().take(MOST).filter_map(row).collect()
}
