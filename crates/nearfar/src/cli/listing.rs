//! The machine's instructions around the hottest ones, for a page: only where the user asks for them, and only of files
//! that are those of the recording by their build id.

use iced_x86::{Decoder, DecoderOptions, Formatter, GasFormatter};
use nearfar_analyze::{HotInstruction, Report};
use nearfar_host::symbols::Module;
use nearfar_report::html::{Listing, ListingLine};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::Path;

/// Instructions before and after a hot one, listings, and bytes of a function that is gone through. // chosen
const AROUND: usize = 6;
const LISTINGS: usize = 12;
const BYTES: u64 = 1 << 20;

/// A function's hot instructions: its range, and by address the positions in the report.
type Hot = BTreeMap<u64, usize>;

/// Listings, hottest first, and what is missing, in words.
pub(super) fn gather(report: &Report) -> (Vec<Listing>, Vec<String>) {
    let mut files: BTreeMap<&str, Result<Module, String>> = BTreeMap::new();
    let mut missing = BTreeSet::new();
    // In the order of their hottest instruction.
    let mut functions: Vec<(&str, Range<u64>, Hot)> = Vec::new();
    for (at, hot) in report.pictures.instructions.iter().enumerate() {
        let file = files.entry(&hot.module).or_insert_with(|| open(hot));
        let module = match file {
            Ok(module) => module,
            Err(why) => {
                missing.insert(format!("{}: {why}", hot.module));
                continue;
            }
        };
        let place = module.vaddr_of_file_offset(hot.file_offset);
        let Some((address, range)) = place.and_then(|a| Some((a, module.function_range(a)?))) else {
            missing.insert(format!("{}: nothing bounds the code of {}", hot.module, hot.function));
            continue;
        };
        match functions.iter_mut().find(|f| f.0 == hot.module && f.1 == range) {
            Some(function) => drop(function.2.insert(address, at)),
            None => functions.push((&hot.module, range, Hot::from([(address, at)]))),
        }
    }
    let mut listings = Vec::new();
    for (path, range, hot) in functions.into_iter().take(LISTINGS) {
        let Some(Ok(module)) = files.get(path) else { continue };
        let lines = module.code(range.clone()).map(|code| lines(code, &range, &hot)).unwrap_or_default();
        let first = hot.values().min().map(|&at| &report.pictures.instructions[at]);
        if let (Some(first), false) = (first, lines.is_empty()) {
            listings.push(Listing {
                function: first.function.clone(),
                at: first.at.clone(),
                module: path.to_owned(),
                lines,
            });
        }
    }
    (listings, missing.into_iter().collect())
}

/// The file, if it is the one that was recorded.
fn open(hot: &HotInstruction) -> Result<Module, String> {
    let recorded = hot
        .build_id
        .as_ref()
        .ok_or("it has no build id: whether it is the file of the recording is unknown")?;
    let module =
        Module::open(Path::new(&hot.module)).map_err(|_| "the file is not here, or cannot be read")?;
    match module.build_id() {
        Some(here) if here == *recorded => {}
        _ => {
            return Err(
                "built anew since the recording (another build id): its source may have changed, too"
                    .to_owned(),
            );
        }
    }
    match module.is_x86_64() {
        true => Ok(module),
        false => Err("only instructions of x86-64 are shown".to_owned()),
    }
}

/// The instructions of a function that are near hot ones.
fn lines(code: &[u8], range: &Range<u64>, hot: &Hot) -> Vec<ListingLine> {
    let code = &code[..code.len().min(BYTES as usize)];
    let mut decoder = Decoder::with_ip(64, code, range.start, DecoderOptions::NONE);
    let mut formatter = GasFormatter::new();
    let all: Vec<_> = decoder.iter().collect();
    let places: Vec<usize> = (0..all.len()).filter(|&i| hot.contains_key(&all[i].ip())).collect();
    let mut lines = Vec::new();
    for (i, instruction) in all.iter().enumerate() {
        let next = places.partition_point(|&p| p + AROUND < i);
        if places.get(next).is_none_or(|&p| p > i + AROUND) {
            continue;
        }
        let mut text = String::new();
        formatter.format(instruction, &mut text);
        let address = instruction.ip();
        lines.push(ListingLine { address, text, instruction: hot.get(&address).copied() });
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_around_hot_ones_are_listed_and_others_left_out() {
        // 100 times `nop`, then `mov (%rdi),%eax`.
        let mut code = vec![0x90; 100];
        code.extend([0x8b, 0x07]);
        let listed = lines(&code, &(0x1000..0x1066), &Hot::from([(0x1064, 3), (0x1000, 5)]));
        let addresses: Vec<u64> = listed.iter().map(|l| l.address).collect();
        assert_eq!(addresses, (0x1000..=0x1006).chain(0x105e..=0x1064).collect::<Vec<_>>());
        let last = listed.last().unwrap();
        assert_eq!((last.text.as_str(), last.instruction), ("mov (%rdi),%eax", Some(3)));
        assert_eq!(listed[0].instruction, Some(5));
    }

    #[test]
    fn only_the_file_of_the_recording_is_listed() {
        let own = std::env::current_exe().unwrap();
        let id = Module::open(&own).unwrap().build_id();
        let hot = |build_id| HotInstruction {
            at: None,
            function: "f".into(),
            module: own.to_string_lossy().into_owned(),
            build_id,
            file_offset: 0,
            share: 1.0,
            remote_share: None,
        };
        let why = |build_id| open(&hot(build_id)).err();
        assert!(why(None).is_some_and(|w| w.contains("no build id")));
        assert!(why(Some("00ff".into())).is_some_and(|w| w.contains("built anew")));
        if id.is_some() && cfg!(target_arch = "x86_64") {
            assert_eq!(why(id), None);
        }
    }
}
