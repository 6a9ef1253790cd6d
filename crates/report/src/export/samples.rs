//! Samples as other tools want them: with a thread, a stack of functions, an object, and whether it was far.
//!
//! [`Samples`] is what an export is made of; each format is a module beside this one.

use nearfar_analyze::{AnalyzeError, Basis, Found, Input, Judge, SampleReader, replay};
use nearfar_recording::{Access, AccessSamples, Columns, NONE, SampleSource, Served};
use std::collections::HashMap;

/// What a sample weighs in an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weight {
    /// Its own: CPU time, or lines from and to memory, as the recording counts.
    All,
    /// The same, of samples on far memory only; samples of which that is unknown are left out and counted.
    Remote,
    /// Cycles that the access took, of hardware samples.
    Latency,
}

/// A function on a stack.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frame {
    /// Its name; the module and offset where it has none.
    pub function: String,
    /// Source file; empty if unknown.
    pub file: String,
    /// Line; 0 if unknown.
    pub line: u32,
    /// Path of its module; empty for generated code.
    pub module: String,
    /// Address in the process.
    pub address: u64,
    /// Offset from the function's begin is not known; this is the one in the module's file.
    pub file_offset: u64,
}

/// A sample.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sample {
    /// Time, ns.
    pub time_ns: u64,
    /// Position in [`Samples::threads`].
    pub thread: u32,
    /// Cpu.
    pub cpu: u16,
    /// Stack, innermost first: positions in [`Samples::frames`].
    pub stack: Vec<u32>,
    /// Data address; 0 if unknown.
    pub address: u64,
    /// What it did.
    pub access: Option<Access>,
    /// Position in [`Samples::objects`]; `None` if unknown.
    pub object: Option<u32>,
    /// Node of the cpu; `None` if unknown.
    pub node: Option<u32>,
    /// Node of the page; `None` if unknown.
    pub page_node: Option<u32>,
    /// Whether the memory was another node's; `None` if unknown, or if it touched none.
    pub remote: Option<bool>,
    /// Weight in the recording's unit.
    pub weight: u64,
    /// Latency, cycles; 0 if unknown.
    pub latency_cycles: u32,
    /// Events that it stands for; 0 where it is none of the processor's.
    pub period: u32,
    /// Where the data came from, as the processor said; of counted lines as they were counted.
    pub served: Option<Served>,
    /// The 64 bits of that, where the processor gave them; else 0.
    pub data_src: u64,
    /// Where the sample is from: `clock`, `hardware`, `simulated`, …
    pub from: &'static str,
}

/// A thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Thread {
    /// Process.
    pub pid: u32,
    /// Thread.
    pub tid: u32,
    /// Name.
    pub name: String,
}

/// All samples of a recording, with what they refer to.
#[derive(Clone, Debug, Default)]
pub struct Samples {
    /// The command.
    pub command: Vec<String>,
    /// When it was recorded, RFC 3339.
    pub started: String,
    /// Unit of [`Sample::weight`]: `ns` or `lines`.
    pub unit: &'static str,
    /// Threads.
    pub threads: Vec<Thread>,
    /// Functions.
    pub frames: Vec<Frame>,
    /// Names of objects.
    pub objects: Vec<String>,
    /// Samples in the order of the recording.
    pub samples: Vec<Sample>,
}

impl Samples {
    /// What a sample counts for; `None`: it is left out.
    pub fn weight(&self, sample: &Sample, by: Weight) -> Option<u64> {
        match by {
            Weight::All => Some(sample.weight),
            Weight::Remote => (sample.remote == Some(true)).then_some(sample.weight),
            Weight::Latency => (sample.latency_cycles > 0)
                .then(|| u64::from(sample.latency_cycles) * u64::from(sample.period.max(1))),
        }
    }

    /// Unit of that weight.
    pub fn unit(&self, by: Weight) -> &'static str {
        if by == Weight::Latency { "cycles" } else { self.unit }
    }

    /// Samples that [`Weight::Remote`] leaves out because it is unknown where their memory was.
    pub fn unknown(&self) -> u64 {
        self.samples.iter().filter(|s| s.remote.is_none() && s.address != 0).count() as u64
    }

    /// `local memory`, `remote memory` or `unknown` for stacks.
    pub fn place(sample: &Sample) -> &'static str {
        match sample.remote {
            Some(true) => "far",
            Some(false) => "near",
            None => "unknown",
        }
    }
}

impl Samples {
    /// All samples of a recording that count, judged on a machine.
    ///
    /// # Errors
    /// See [`AnalyzeError`].
    pub fn gather(input: &Input, samples: &dyn SampleReader, judge: &Judge) -> Result<Samples, AnalyzeError> {
        let mut names = Names::new(input);
        let mut all = Samples {
            command: input.meta.command.clone(),
            started: input.meta.started.clone(),
            threads: threads(input),
            ..Samples::default()
        };
        let mut stacks = HashMap::new();
        let found = replay(input, samples, judge, |s, i, seen| {
            all.samples.push(names.sample(s, i, seen, &mut stacks))
        });
        let (basis, objects) = found?;
        all.unit = match basis {
            Basis::StallTime => "ns",
            Basis::DramLines => "lines",
            Basis::MemoryLoads => "loads",
        };
        all.objects = objects;
        all.frames = names.frames;
        all.samples.sort_by_key(|s| s.time_ns);
        Ok(all)
    }
}

fn threads(input: &Input) -> Vec<Thread> {
    let pids: HashMap<u32, u32> = input.processes.rows().map(|p| (p.id, p.pid)).collect();
    let of = |t: nearfar_recording::Thread| Thread {
        pid: pids.get(&t.process).copied().unwrap_or(0),
        tid: t.tid,
        name: t.name,
    };
    input.threads.rows().map(of).collect()
}

/// Frames of locations.
struct Names<'a> {
    input: &'a Input,
    /// Rows of `symbols` and of `locations` by location.
    symbols: HashMap<u32, Vec<usize>>,
    locations: HashMap<u32, usize>,
    /// Locations of each chain, innermost first.
    chains: HashMap<u32, Vec<u32>>,
    modules: HashMap<u32, usize>,
    frames: Vec<Frame>,
    /// Frames of a location, innermost first.
    known: HashMap<u32, Vec<u32>>,
}

impl<'a> Names<'a> {
    fn new(input: &'a Input) -> Names<'a> {
        let mut symbols: HashMap<u32, Vec<usize>> = HashMap::new();
        for (i, &location) in input.symbols.location.iter().enumerate() {
            symbols.entry(location).or_default().push(i);
        }
        symbols.values_mut().for_each(|rows| rows.sort_by_key(|&i| input.symbols.depth[i]));
        let mut chains: HashMap<u32, Vec<u32>> = HashMap::new();
        for (i, &chain) in input.chains.chain.iter().enumerate() {
            chains.entry(chain).or_default().push(input.chains.location[i]);
        }
        let at = |ids: &[u32]| ids.iter().enumerate().map(|(i, &id)| (id, i)).collect::<HashMap<_, _>>();
        Names {
            input,
            symbols,
            locations: at(&input.locations.id),
            chains,
            modules: at(&input.modules.id),
            frames: Vec::new(),
            known: HashMap::new(),
        }
    }

    fn frames_of(&mut self, location: u32) -> Vec<u32> {
        if let Some(known) = self.known.get(&location) {
            return known.clone();
        }
        let input = self.input;
        let row = self.locations.get(&location).copied();
        let (address, file_offset) =
            row.map_or((0, 0), |i| (input.locations.address[i], input.locations.file_offset[i]));
        let module = row.and_then(|i| self.modules.get(&input.locations.module[i]));
        let module = module.map_or(String::new(), |&i| input.modules.path[i].clone());
        let bare = Frame { module, address, file_offset, ..Frame::default() };
        let named = |&i: &usize| Frame {
            function: input.symbols.function[i].clone(),
            file: input.symbols.file[i].clone(),
            line: input.symbols.line[i],
            ..bare.clone()
        };
        let mut frames: Vec<Frame> = self.symbols.get(&location).into_iter().flatten().map(named).collect();
        if frames.is_empty() {
            frames.push(bare.clone());
        }
        for frame in frames.iter_mut().filter(|f| f.function.is_empty()) {
            let file = bare.module.rsplit('/').next().unwrap_or_default();
            frame.function = match file {
                "" => format!("0x{address:x}"),
                file => format!("{file}+0x{file_offset:x}"),
            };
        }
        let first = self.frames.len() as u32;
        let ids: Vec<u32> = (first..first + frames.len() as u32).collect();
        self.frames.append(&mut frames);
        self.known.insert(location, ids.clone());
        ids
    }

    fn sample(
        &mut self,
        s: &AccessSamples,
        i: usize,
        seen: &Found,
        stacks: &mut HashMap<(u32, u32), Vec<u32>>,
    ) -> Sample {
        let key = (s.operand_ip[i], s.chain[i]);
        let stack = match stacks.get(&key) {
            Some(known) => known.clone(),
            None => {
                let mut stack = self.frames_of(s.operand_ip[i]);
                let callers = self.chains.get(&s.chain[i]).cloned().unwrap_or_default();
                callers.iter().skip(1).for_each(|&location| stack.extend(self.frames_of(location)));
                stacks.insert(key, stack.clone());
                stack
            }
        };
        let from = SampleSource::from_code(s.source[i]);
        let hardware = from == Some(SampleSource::Hardware);
        Sample {
            time_ns: s.time_ns[i],
            thread: seen.thread.unwrap_or(NONE),
            cpu: s.cpu[i],
            stack,
            address: s.address[i],
            access: Access::from_code(s.access[i]).filter(|a| *a != Access::Unknown),
            object: seen.row,
            node: seen.node,
            page_node: seen.page_node,
            remote: seen.remote,
            weight: seen.weight,
            latency_cycles: s.latency_cycles[i],
            period: s.period[i],
            served: if hardware { Served::from_code(s.served[i]) } else { None },
            data_src: s.data_src[i],
            from: from.map_or("unknown", SampleSource::text),
        }
    }
}
