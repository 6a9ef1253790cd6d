//! Lines of Python as places in the code: they have no address, so their symbols are written with them.

use super::ProcessTable;
use crate::collect::agent::PythonFrame;
use crate::store::Tables;
use nearfar_host::proc;
use nearfar_recording::{Columns, Location, PYTHON_MODULE, Symbol};

impl ProcessTable {
    /// A call chain of C, and the lines of Python that it was called from, as one.
    pub fn chain_with_python(
        &mut self,
        space: u32,
        frames: &[u64],
        python: &[PythonFrame],
        tables: &mut Tables,
    ) -> u32 {
        let mut locations = self.locations_of(space, frames, tables);
        for frame in python {
            let id = match self.python.get(frame) {
                Some(&id) => id,
                None => self.python_location(space, frame, tables),
            };
            locations.push(id);
        }
        self.chain_of(space, locations, tables)
    }

    fn python_location(&mut self, space: u32, frame: &PythonFrame, tables: &mut Tables) -> u32 {
        let module = self.module(0, PYTHON_MODULE, proc::FileId::default(), tables);
        let id = self.location_count;
        self.location_count += 1;
        tables.locations.push(Location { id, process: space, address: 0, module, file_offset: 0 });
        let PythonFrame { line, file, function } = frame.clone();
        tables.symbols.push(Symbol { location: id, depth: 0, function, file, line });
        self.python.insert(frame.clone(), id);
        id
    }
}
