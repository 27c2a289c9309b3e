//! The files of one crate: their structs, their `impl` blocks, and which file uses which.

use std::collections::{BTreeMap, BTreeSet};

use syn::{Item, Type, UseTree, Visibility, visit::Visit};

use super::Source;
use crate::process::Outcome;

/// Steps from the root of a crate, such as `["watch", "hub"]`.
type Path = Vec<String>;

/// One crate, with its test modules left out.
pub struct Crate {
    modules: BTreeMap<Path, Module>,
}

/// One file. Modules inside braces count as part of it.
#[derive(Default)]
struct Module {
    /// The file's name from the root of the repository.
    file: String,
    structs: Vec<(String, usize)>,
    /// Types and enums defined here.
    types: BTreeSet<String>,
    /// Names of types with an `impl` block here.
    impls: BTreeSet<String>,
    /// Names that are passed on under a name of this module, as written.
    passed_on: BTreeMap<String, Path>,
    /// Paths to other names, as written.
    uses: BTreeSet<Path>,
}

impl Crate {
    /// Reads the files below `root`, which ends with `/src`.
    ///
    /// # Errors
    ///
    /// The first file that is not Rust.
    pub fn parse(root: &str, files: &[&Source]) -> Outcome<Self> {
        let mut modules = BTreeMap::new();
        for source in files {
            let file = syn::parse_file(&source.text)
                .map_err(|error| format!("{}: {error}", source.path))?;
            let mut module = Module {
                file: source.path.clone(),
                ..Module::default()
            };
            module.visit_file(&file);
            modules.insert(path_of(root, &source.path), module);
        }
        Ok(Self { modules })
    }

    /// File, name and number of fields of each struct.
    pub fn structs(&self) -> impl Iterator<Item = (&str, &str, usize)> {
        self.modules.values().flat_map(|module| {
            let structs = module.structs.iter();
            structs.map(|(name, fields)| (module.file.as_str(), name.as_str(), *fields))
        })
    }

    /// File and name of each type.
    pub fn types(&self) -> impl Iterator<Item = (&str, &str)> {
        self.modules.values().flat_map(|module| {
            let types = module.types.iter();
            types.map(|name| (module.file.as_str(), name.as_str()))
        })
    }

    /// The files with an `impl` block of each type, by the type's own file and name.
    pub fn impl_files(&self) -> BTreeMap<(String, String), BTreeSet<String>> {
        let mut files: BTreeMap<_, BTreeSet<String>> = BTreeMap::new();
        for (path, module) in &self.modules {
            for name in &module.impls {
                if let Some(owner) = self.owner(path, name) {
                    let of = files.entry((owner.to_owned(), name.clone())).or_default();
                    of.insert(module.file.clone());
                }
            }
        }
        files
    }

    /// The file that defines the type which `name` means in the module at `path`.
    fn owner(&self, path: &Path, name: &String) -> Option<&str> {
        let here = &self.modules[path];
        if here.types.contains(name) {
            return Some(&here.file);
        }
        let imported = here.uses.iter().find(|used| used.last() == Some(name));
        let module = self.resolve(path, imported?)?;
        self.modules.get(&module).map(|module| module.file.as_str())
    }

    /// Groups of files of which each uses each other one, directly or through others.
    pub fn circles(&self) -> Vec<BTreeSet<String>> {
        let reached: BTreeMap<&Path, BTreeSet<Path>> = self
            .modules
            .keys()
            .map(|path| (path, self.reached_from(path)))
            .collect();
        let mut circles: BTreeSet<BTreeSet<String>> = BTreeSet::new();
        for (path, others) in &reached {
            let circle = others
                .iter()
                .filter(|other| reached[*other].contains(*path));
            circles.insert(circle.map(|path| self.modules[path].file.clone()).collect());
        }
        circles
            .into_iter()
            .filter(|circle| circle.len() > 1)
            .collect()
    }

    fn reached_from(&self, start: &Path) -> BTreeSet<Path> {
        let mut reached = BTreeSet::new();
        let mut open = vec![start.clone()];
        while let Some(path) = open.pop() {
            for used in &self.modules[&path].uses {
                if let Some(target) = self.resolve(&path, used)
                    && target != path
                    && reached.insert(target.clone())
                {
                    open.push(target);
                }
            }
        }
        reached
    }

    /// The module that has what `used` names in the module at `path`; none for names of other
    /// crates.
    fn resolve(&self, path: &Path, used: &[String]) -> Option<Path> {
        let mut module = match used.first().map(String::as_str) {
            Some("crate") => Path::new(),
            Some("super") => path.split_last()?.1.to_vec(),
            Some("self") => path.clone(),
            Some(first) => {
                let child = [path.as_slice(), &[first.to_owned()]].concat();
                self.modules.get(&child).map(|_| child)?
            }
            None => return None,
        };
        for (index, step) in used.iter().enumerate().skip(1) {
            let child = [module.as_slice(), std::slice::from_ref(step)].concat();
            if step == "super" {
                module.pop();
            } else if self.modules.contains_key(&child) {
                module = child;
            } else if let Some(target) = self.modules.get(&module)?.passed_on.get(step) {
                let rest = [target.as_slice(), &used[index + 1..]].concat();
                return self.resolve(&module, &rest);
            } else {
                break;
            }
        }
        self.modules.contains_key(&module).then_some(module)
    }
}

/// `src/lib.rs` is the root, `src/a.rs` and `src/a/mod.rs` are `a`.
fn path_of(root: &str, file: &str) -> Path {
    let inside = &file[root.len() + 1..file.len() - ".rs".len()];
    let mut path: Path = inside.split('/').map(str::to_owned).collect();
    if matches!(
        path.last().map(String::as_str),
        Some("lib" | "main" | "mod")
    ) {
        path.pop();
    }
    path
}

impl Module {
    fn add_use(&mut self, tree: &UseTree, before: &Path, passes_on: bool) {
        match tree {
            UseTree::Path(step) => {
                let path = [before.as_slice(), &[step.ident.to_string()]].concat();
                self.add_use(&step.tree, &path, passes_on);
            }
            UseTree::Group(group) => {
                for tree in &group.items {
                    self.add_use(tree, before, passes_on);
                }
            }
            UseTree::Name(name) => self.add_name(before, &name.ident, &name.ident, passes_on),
            UseTree::Rename(name) => self.add_name(before, &name.ident, &name.rename, passes_on),
            UseTree::Glob(_) => {
                self.uses.insert(before.clone());
            }
        }
    }

    fn add_name(&mut self, before: &Path, name: &syn::Ident, own: &syn::Ident, passes_on: bool) {
        let mut path = before.clone();
        if name != "self" {
            path.push(name.to_string());
        }
        if passes_on {
            self.passed_on.insert(own.to_string(), path);
        } else {
            self.uses.insert(path);
        }
    }
}

impl<'file> Visit<'file> for Module {
    fn visit_item(&mut self, item: &'file Item) {
        let attributes = match item {
            Item::Mod(it) => &it.attrs,
            Item::Fn(it) => &it.attrs,
            Item::Impl(it) => &it.attrs,
            Item::Use(it) => &it.attrs,
            Item::Struct(it) => &it.attrs,
            _ => &Vec::new(),
        };
        if !attributes.iter().any(is_for_tests) {
            syn::visit::visit_item(self, item);
        }
    }

    fn visit_item_struct(&mut self, item: &'file syn::ItemStruct) {
        let name = item.ident.to_string();
        self.types.insert(name.clone());
        self.structs.push((name, item.fields.len()));
        syn::visit::visit_item_struct(self, item);
    }

    fn visit_item_enum(&mut self, item: &'file syn::ItemEnum) {
        self.types.insert(item.ident.to_string());
        syn::visit::visit_item_enum(self, item);
    }

    fn visit_item_impl(&mut self, item: &'file syn::ItemImpl) {
        if let Type::Path(path) = &*item.self_ty
            && let Some(last) = path.path.segments.last()
        {
            self.impls.insert(last.ident.to_string());
        }
        syn::visit::visit_item_impl(self, item);
    }

    fn visit_item_use(&mut self, item: &'file syn::ItemUse) {
        let passes_on = !matches!(item.vis, Visibility::Inherited);
        self.add_use(&item.tree, &Path::new(), passes_on);
    }

    fn visit_path(&mut self, path: &'file syn::Path) {
        if path.segments.len() > 1 {
            let steps = path
                .segments
                .iter()
                .map(|segment| segment.ident.to_string());
            self.uses.insert(steps.collect());
        }
        syn::visit::visit_path(self, path);
    }
}

fn is_for_tests(attribute: &syn::Attribute) -> bool {
    let syn::Meta::List(list) = &attribute.meta else {
        return false;
    };
    list.path.is_ident("cfg") && list.tokens.to_string().contains("test")
}
