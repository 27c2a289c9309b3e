//! Makes database files, sound ones and others.

use std::path::PathBuf;

use bolt::format::{BRANCH, FREE_LIST, IS_BUCKET, LEAF, MAGIC, META, NO_FREE_LIST, VERSION};
use bolt::{DatabaseFile, Error};
use tempfile::TempDir;

pub const PAGE_BYTES: usize = 4096;
/// Most elements of a page that is made here.
const FAN_OUT: usize = 8;

pub type Pair = (Vec<u8>, Vec<u8>);
/// A bucket's name with its pairs.
pub type Named = (Vec<u8>, Vec<Pair>);

/// A file in memory, made page by page.
pub struct Image {
    pub bytes: Vec<u8>,
}

/// An element with its first key, and its last fields: for a leaf flags and value, for a branch
/// the child.
enum Element {
    Leaf(u32, Vec<u8>, Vec<u8>),
    Branch(Vec<u8>, u64),
}

impl Image {
    /// A file of these buckets. Small ones are inline, as bbolt makes them.
    pub fn of(buckets: &[(&str, Vec<Pair>)]) -> Image {
        let mut image = Image {
            bytes: vec![0; 2 * PAGE_BYTES],
        };
        let elements = buckets.iter().map(|(name, pairs)| {
            let leaves = leaves(pairs);
            let value = match pairs
                .iter()
                .map(|(k, v)| k.len() + v.len() + 16)
                .sum::<usize>()
            {
                0..1_000 => [&[0; 16][..], &page(0, LEAF, &leaves)].concat(),
                _ => [image.tree(leaves).to_le_bytes(), [0; 8]].concat(),
            };
            Element::Leaf(IS_BUCKET, name.as_bytes().to_vec(), value)
        });
        let elements = elements.collect();
        let root = image.tree(elements);
        image.write_meta(root, NO_FREE_LIST);
        image
    }

    /// Number of pages.
    pub fn pages(&self) -> u64 {
        (self.bytes.len() / PAGE_BYTES) as u64
    }

    /// Bytes of a page.
    pub fn page(&mut self, id: u64) -> &mut [u8] {
        &mut self.bytes[id as usize * PAGE_BYTES..]
    }

    /// The number of the root page.
    pub fn root(&self) -> u64 {
        u64::from_le_bytes(self.bytes[32..40].try_into().unwrap())
    }

    /// Adds a page with a list of free pages.
    pub fn add_free_list(&mut self, free: &[u64]) {
        let id = self.pages();
        let body = free.iter().flat_map(|id| id.to_le_bytes());
        let bytes = [
            &header(id, FREE_LIST, free.len(), 0)[..],
            &body.collect::<Vec<_>>(),
        ]
        .concat();
        self.append(bytes);
        self.write_meta(self.root(), id);
    }

    /// Writes both meta pages again; the second one is older.
    pub fn write_meta(&mut self, root: u64, free_list: u64) {
        self.write_meta_with(root, free_list, self.pages());
    }

    /// Writes meta pages that claim a number of pages.
    pub fn write_meta_with(&mut self, root: u64, free_list: u64, pages: u64) {
        for (id, transaction) in [(0, 4), (1, 3)] {
            let numbers = [MAGIC, VERSION, PAGE_BYTES as u32, 0];
            let mut meta: Vec<u8> = numbers.iter().flat_map(|it| it.to_le_bytes()).collect();
            for number in [root, 0, free_list, pages, transaction] {
                meta.extend(number.to_le_bytes());
            }
            meta.extend(fnv_1a(&meta).to_le_bytes());
            let bytes = [&header(id, META, 0, 0)[..], &meta].concat();
            self.page(id)[..bytes.len()].copy_from_slice(&bytes);
        }
    }

    /// Opens it from a folder of its own.
    pub fn open(&self) -> Result<Opened, Error> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("db");
        std::fs::write(&path, &self.bytes).unwrap();
        let file = DatabaseFile::open(&path)?;
        Ok(Opened {
            file,
            path,
            _folder: folder,
        })
    }

    /// What is wrong with it.
    pub fn error(&self) -> String {
        match self.open() {
            Err(error) => error.to_string(),
            Ok(opened) => opened.file.check(|_| ()).unwrap_err().to_string(),
        }
    }

    /// Writes a tree and returns its root.
    fn tree(&mut self, mut elements: Vec<Element>) -> u64 {
        let mut flags = LEAF;
        loop {
            let is_root = elements.len() <= FAN_OUT;
            let mut above = Vec::new();
            while !elements.is_empty() {
                let rest = elements.split_off(elements.len().min(FAN_OUT));
                let id = self.pages();
                above.push(Element::Branch(elements[0].key().to_vec(), id));
                self.append(page(id, flags, &elements));
                elements = rest;
            }
            if is_root {
                return self.pages() - overflow(&self.bytes, self.pages() - 1) - 1;
            }
            (elements, flags) = (above, BRANCH);
        }
    }

    fn append(&mut self, bytes: Vec<u8>) {
        self.bytes.extend(bytes);
        self.bytes
            .resize(self.bytes.len().next_multiple_of(PAGE_BYTES), 0);
    }
}

/// Pages between the last page and the header of the page that it belongs to.
fn overflow(bytes: &[u8], last: u64) -> u64 {
    let is_header = |id: u64| {
        let at = id as usize * PAGE_BYTES;
        let header = &bytes[at..at + 16];
        let follows = u32::from_le_bytes(header[12..].try_into().unwrap());
        header[..8] == id.to_le_bytes() && id + u64::from(follows) == last
    };
    (0..=last).find(|back| is_header(last - back)).unwrap()
}

impl Element {
    fn key(&self) -> &[u8] {
        match self {
            Element::Leaf(_, key, _) | Element::Branch(key, _) => key,
        }
    }
}

fn leaves(pairs: &[Pair]) -> Vec<Element> {
    let leaves = pairs.iter().cloned();
    leaves
        .map(|(key, value)| Element::Leaf(0, key, value))
        .collect()
}

fn header(id: u64, flags: u16, count: usize, overflow: u32) -> [u8; 16] {
    let mut header = [0; 16];
    header[..8].copy_from_slice(&id.to_le_bytes());
    header[8..10].copy_from_slice(&flags.to_le_bytes());
    header[10..12].copy_from_slice(&(count as u16).to_le_bytes());
    header[12..].copy_from_slice(&overflow.to_le_bytes());
    header
}

fn page(id: u64, flags: u16, elements: &[Element]) -> Vec<u8> {
    let (mut table, mut data) = (Vec::new(), Vec::new());
    for (number, element) in elements.iter().enumerate() {
        let position = ((elements.len() - number) * 16 + data.len()) as u32;
        match element {
            Element::Leaf(flags, key, value) => {
                for field in [*flags, position, key.len() as u32, value.len() as u32] {
                    table.extend(field.to_le_bytes());
                }
                data.extend_from_slice(key);
                data.extend_from_slice(value);
            }
            Element::Branch(key, child) => {
                table.extend(position.to_le_bytes());
                table.extend((key.len() as u32).to_le_bytes());
                table.extend(child.to_le_bytes());
                data.extend_from_slice(key);
            }
        }
    }
    let overflow = ((16 + table.len() + data.len()).div_ceil(PAGE_BYTES) - 1) as u32;
    let overflow = if id == 0 { 0 } else { overflow };
    [
        &header(id, flags, elements.len(), overflow)[..],
        &table,
        &data,
    ]
    .concat()
}

fn fnv_1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |sum, byte| {
        (sum ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// An open file with its folder.
#[derive(Debug)]
pub struct Opened {
    pub file: DatabaseFile,
    pub path: PathBuf,
    _folder: TempDir,
}

/// All pairs of a file with the names of their buckets.
pub fn read(file: &DatabaseFile) -> Result<Vec<Named>, Error> {
    let buckets = file.buckets()?.into_iter().map(|bucket| {
        let pairs = file.entries(&bucket);
        let pairs = pairs.map(|entry| entry.map(|(key, value)| (key.to_vec(), value.to_vec())));
        Ok((bucket.name.to_vec(), pairs.collect::<Result<_, Error>>()?))
    });
    buckets.collect()
}
