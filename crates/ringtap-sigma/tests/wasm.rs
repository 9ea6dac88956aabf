//! The vectors inside wasm give the bytes that the files have, as natively. `scripts/wasm` builds the module
//! `examples/wasm_vectors.rs` and names it in `RINGTAP_SIGMA_WASM`; without that this test is not run.

use std::path::Path;

use wasmi::{Engine, Instance, Linker, Memory, Module, Store};

/// A module at work.
struct Inside {
    store: Store<()>,
    instance: Instance,
    memory: Memory,
}

impl Inside {
    fn new(bytes: &[u8]) -> Self {
        let engine = Engine::default();
        let module = Module::new(&engine, bytes).expect("a module");
        // Nothing to link: a module that asked for anything of its host (a clock, say) would not start.
        assert_eq!(module.imports().len(), 0, "the module asks for something of its host");
        let mut store = Store::new(&engine, ());
        let instance = Linker::new(&engine).instantiate_and_start(&mut store, &module).expect("it starts");
        let memory = instance.get_memory(&store, "memory").expect("memory");
        Self { store, instance, memory }
    }

    fn give(&mut self, text: &str) -> (i32, i32) {
        let reserve = self.instance.get_typed_func::<i32, i32>(&self.store, "reserve").expect("reserve");
        let len = i32::try_from(text.len()).expect("a short text");
        let at = reserve.call(&mut self.store, len).expect("memory");
        self.memory.write(&mut self.store, at as usize, text.as_bytes()).expect("reserved memory");
        (at, len)
    }

    fn vectors(&mut self, rules: &str, file: &str) -> String {
        let ((rules, rules_len), (file, file_len)) = (self.give(rules), self.give(file));
        let vectors =
            self.instance.get_typed_func::<(i32, i32, i32, i32), i32>(&self.store, "vectors").expect("vectors");
        let at = vectors.call(&mut self.store, (rules, rules_len, file, file_len)).expect("no trap");
        let mut pair = [0; 8];
        self.memory.read(&self.store, at as usize, &mut pair).expect("a pair");
        let word = |at: usize| u32::from_le_bytes(pair[at..at + 4].try_into().expect("four bytes")) as usize;
        let mut text = vec![0; word(4)];
        self.memory.read(&self.store, word(0), &mut text).expect("a text");
        String::from_utf8(text).expect("UTF-8")
    }
}

#[test]
fn vectors_inside_wasm_give_the_same_bytes() {
    let module = std::env::var_os("RINGTAP_SIGMA_WASM").expect("run this by scripts/wasm");
    let bytes = std::fs::read(&module).expect("the module");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors");
    let mut files = 0;
    for entry in std::fs::read_dir(&folder).expect("the vectors") {
        let path = entry.expect("a file").path();
        if path.extension().is_none_or(|it| it != "jsonl") {
            continue;
        }
        let text = std::fs::read_to_string(&path).expect("a file of vectors");
        let first: serde_json::Value = serde_json::from_str(text.lines().next().expect("a line")).expect("JSON");
        let rules = std::fs::read_to_string(folder.join(first["rules"].as_str().expect("a name"))).expect("rules");
        let written = Inside::new(&bytes).vectors(&rules, &text);
        for (number, (found, expected)) in written.lines().zip(text.lines()).enumerate() {
            assert_eq!(found, expected, "{}:{}", path.display(), number + 1);
        }
        assert_eq!(written.lines().count(), text.lines().count(), "{}", path.display());
        files += 1;
    }
    assert!(files >= 3, "{files} files of vectors");
}
