//! The end of a recording: what is still to be read, written and said.

use super::{Outcome, RecordError, Session, give_to};
use crate::collect::illegal;
use crate::collect::losses;
use crate::collect::setup::{hardware_source, sources, sources_inside};
use crate::store::{Finished, finish_with};
use nearfar_host::live::Busy;
use nearfar_host::proc;
use nearfar_host::target::Ending;
use nearfar_host::target::inherited::too_little_to_finish;
use std::path::Path;
impl Session<'_> {
    /// Ends it, as of `end_ns`. `untouched`: the terminal is there for a line, which nothing but the recorder has written to.
    pub(super) fn close(
        mut self,
        ending: Option<Ending>,
        end_ns: u64,
        untouched: bool,
    ) -> Result<Outcome, RecordError> {
        let left =
            self.interpreter.processes.living().filter(|&(pid, _)| proc::start_time(pid).is_some()).count();
        if left > 0 && ending.is_some() {
            self.writer.lose(
                end_ns,
                "processes",
                left as u64,
                "processes that still ran when the command had ended were recorded up to then",
            );
        }
        let agent = self.agent.as_ref().ok();
        losses::note(&mut self.writer, &self.interpreter, agent.map(|a| (a, &self.agent_events)), end_ns);
        if self.options.inside_guest.is_some() && ending == Some(Ending::Signal(libc::SIGILL)) {
            let line = illegal::kernel_line().unwrap_or_else(|| illegal::NO_LINE.to_owned());
            self.writer.lose(end_ns, illegal::ILLEGAL, 1, line);
        }
        let counting = self.counting.take();
        for (count, why) in
            counting.map_or(Vec::new(), |c| c.close(&mut self.interpreter, &mut self.writer.tables))
        {
            self.writer.lose(end_ns, "counters of threads", count, why);
        }
        self.agent_events.close(&mut self.writer.tables);
        let placed = self.placed();
        let samples_name = if self.perf.is_some() { "clock" } else { "signal" };
        let meta = &mut self.writer.meta;
        meta.state = "stopped".into();
        meta.end_ns = end_ns;
        meta.exit = ending.map(Ending::text).unwrap_or_default();
        meta.agent = self.agent_events.seen;
        meta.placed = placed;
        if !meta.agent && meta.agent_why.is_empty() {
            meta.agent_why = "the program did not load it (another libc, or LD_PRELOAD was removed)".into();
        }
        meta.sources = match &self.options.inside_guest {
            Some(inside) => sources_inside(&inside.how, self.perf_why.as_deref()),
            None => sources(self.perf.is_some(), self.perf_why.as_deref(), &self.skid, meta, self.options.hz),
        };
        if self.options.inside_guest.is_none() {
            meta.sources.insert(0, hardware_source(&self.memory, self.perf.as_ref(), self.options.hz));
        }
        meta.recorder_cpu_s = proc::own_cpu_seconds() - self.cpu_before_s;
        if self.options.inside_guest.is_some() {
            // Seconds of an emulated cpu are not the program's time.
            (meta.recorder_cpu_s, meta.target_cpu_s, meta.steal_share) = (0.0, 0.0, -1.0);
            meta.target_system_s = -1.0;
        }
        self.flush();
        let mut meta = self.writer.meta.clone();
        let failed = self.writer.failure().map(|e| e.to_string());
        let path = self.writer.directory().to_owned();
        let mut summary: Vec<String> = meta.placed.iter().map(|line| format!("nearfar: {line}")).collect();
        let let_report_finish = too_little_to_finish();
        let opened = self.interpreter.processes.opened();
        // Functions and lines of large programs, and tables of long runs, take their time.
        let writing = untouched.then(|| Busy::with("writing the recording".to_owned()));
        match self.writer.close() {
            Ok(_) if self.options.inside_guest.is_some() => {}
            Ok(_) if let_report_finish.is_some() => summary.push(format!(
                "nearfar: the recording is finished when it is first reported: {}",
                let_report_finish.unwrap_or_default()
            )),
            // The program ran: what fails now is said, and its exit status is still what counts.
            Ok(directory) => match finish_with(&directory, &mut meta, opened) {
                Ok(Finished { .. }) => {}
                Err(error) => summary.push(format!(
                    "nearfar: the recording could not be finished: {error:#}. Its journal is kept; `nearfar report` \
                     finishes it where there is room"
                )),
            },
            Err(error) => summary.push(format!(
                "nearfar: the recording is incomplete: {}",
                failed.unwrap_or_else(|| error.to_string())
            )),
        }
        drop(writing);
        // Those have not been counted of a recording that is still to be finished.
        let samples = meta.survey.as_ref().map_or("an unknown number of".into(), |s| s.samples.to_string());
        let share = if meta.target_cpu_s > 0.0 {
            format!(
                "; the recorder used {:.1} % of the program's CPU time",
                100.0 * meta.recorder_cpu_s / meta.target_cpu_s
            )
        } else {
            String::new()
        };
        if meta.sources.iter().all(|source| !source.active) {
            let why: Vec<&str> =
                meta.sources.iter().map(|source| source.why.as_str()).filter(|w| !w.is_empty()).collect();
            summary.push(format!("nearfar: nothing was sampled: {}", why.join("; ")));
        }
        let rank = self.options.rank.clone();
        if rank.is_none() {
            let seconds = (meta.end_ns - meta.start_ns) as f64 * 1e-9;
            summary.push(format!("nearfar: {samples} {samples_name} samples in {seconds:.1} s{share}"));
        }
        if let Some(Ending::Signal(_)) = ending {
            summary.push(format!(
                "nearfar: the program was ended by {}; everything up to then is recorded",
                meta.exit
            ));
        }
        if let Some(user) = &self.options.user
            && let Err(error) = give_to(&path, user)
        {
            summary.push(format!("nearfar: the recording stays root's: {error}"));
        }
        // All ranks would say the same of their run: the first does. What went wrong is said by each.
        let named = match &rank {
            None => Some(path.as_path()),
            Some(rank) if rank.rank == 0 => path.ancestors().nth(2),
            Some(_) => None,
        };
        if let Some(named) = named {
            let shown =
                std::env::current_dir().ok().and_then(|d| named.strip_prefix(d).ok().map(Path::to_owned));
            let shown = shown.unwrap_or(named.to_owned());
            summary.push(format!(
                "nearfar: recording {}; next: nearfar report {}",
                shown.display(),
                nearfar_host::out::quoted(shown.as_os_str())
            ));
        }
        if let Some(rank) = &rank {
            let of = format!("nearfar: rank {}: ", rank.rank);
            let others = summary.iter_mut().filter(|line| !line.contains("; next: nearfar report "));
            others.for_each(|line| *line = line.replacen("nearfar: ", &of, 1));
        }
        Ok(Outcome { directory: path, rank, ending, summary })
    }

    /// What became of the objects that were to be placed.
    fn placed(&self) -> Vec<String> {
        match (&self.options.objects, &self.table, &self.agent) {
            (Some(objects), Some(table), Ok(_)) => objects.outcome(table),
            (Some(_), _, Err(why)) => vec![format!("objects cannot be placed: {why}")],
            _ => Vec::new(),
        }
    }
}
