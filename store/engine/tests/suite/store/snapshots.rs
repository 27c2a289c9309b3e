//! Snapshots from one store to another.

use super::model::Model;
use super::{Store, Write, delete, put};
use engine::{Error, Export, Import, Installed, Piece};
use environment::randomness::Random;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What a snapshot must bring.
#[derive(Clone)]
pub struct Picture {
    pub model: Model,
    pub index: u64,
    pub compacted: i64,
}

impl Store {
    pub fn picture(&self) -> Picture {
        let mut model = self.model.clone();
        model.imported = model.revision;
        Picture {
            model,
            index: self.index,
            compacted: self.compacted,
        }
    }

    pub fn export(&self, piece_bytes: usize) -> Export {
        self.applier.export(self.state(), piece_bytes)
    }

    pub fn import(&self) -> Import {
        self.engine.import(Box::new(|| ())).unwrap()
    }

    /// What it is afterwards, is `picture`.
    pub fn install(&mut self, import: Import, picture: &Picture) -> Result<Installed, Error> {
        let mut state = Vec::new();
        let installed = self.applier.install(import, &mut |blob| {
            state = blob.to_vec();
            Ok(())
        })?;
        assert_eq!(installed.index, picture.index);
        assert_eq!(installed.revision, picture.model.revision);
        self.model = picture.model.clone();
        self.index = picture.index;
        self.compacted = i64::from_le_bytes(state.try_into().unwrap());
        assert_eq!(self.compacted, picture.compacted);
        Ok(installed)
    }

    /// Some hundred kilobytes of everything: overwrites, deletions, transactions
    /// that write a key twice, large values.
    pub fn fill(&mut self, seed: u64, transactions: u64) -> Result<(), Error> {
        let mut random = Random::from_seed(seed);
        for _ in 0..transactions {
            let writes = self.transaction(&mut random);
            self.write(&writes)?;
        }
        Ok(())
    }

    /// Only what exists is deleted.
    fn transaction(&self, random: &mut Random) -> Vec<Write> {
        let revision = self.model.revision;
        let mut exists: BTreeMap<Vec<u8>, bool> = BTreeMap::new();
        let count = 1 + random.below(4);
        let writes = (0..count).map(|_| {
            // A zero byte in some: their order in the history tree is another
            // matter.
            let key = vec![b'k', random.below(12) as u8, random.below(3) as u8];
            let visible = || self.model.visible(&key, revision).is_some();
            let exists = exists.entry(key.clone()).or_insert_with(visible);
            let bytes = match random.below(20) {
                0 => 9000,
                _ => random.below(700) as usize,
            };
            if *exists && random.chance(1, 3) {
                *exists = false;
                return delete(key);
            }
            *exists = true;
            put(key, vec![random.next_u64() as u8; bytes])
        });
        writes.collect()
    }

    pub fn check_everything(&mut self) {
        self.check_all();
        for at in self.model.compacted.max(1)..=self.model.revision {
            self.check_hash(at);
        }
        self.check_history(self.model.compacted.max(1));
    }
}

pub fn pieces(export: &mut Export) -> Vec<Piece> {
    export.map(|piece| piece.unwrap()).collect()
}

/// Offers all pieces and returns when they are written.
pub fn feed(import: &mut Import, pieces: &[Piece]) -> Result<(), Arc<Error>> {
    for piece in pieces {
        assert_eq!(import.wanted(), piece.number);
        import.offer(piece.bytes.clone()).unwrap();
    }
    wait(import)
}

/// Returns when the import is complete or has failed.
pub fn wait(import: &Import) -> Result<(), Arc<Error>> {
    while !import.progress()?.complete {
        std::thread::yield_now();
    }
    Ok(())
}
