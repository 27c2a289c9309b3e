//! Builds the whole site in memory and follows every address of its pages.

use std::collections::BTreeSet;

use super::*;

/// The values of an attribute in a page.
fn attributes<'a>(html: &'a str, name: &str) -> Vec<&'a str> {
    let start = format!(" {name}=\"");
    let parts = html.split(start.as_str()).skip(1);
    parts.filter_map(|part| part.split('"').next()).collect()
}

fn text(content: &[u8]) -> &str {
    std::str::from_utf8(content).unwrap()
}

/// The file that `target` on the page at `address` means, and its anchor.
fn followed(address: &str, target: &str) -> (String, Option<String>) {
    match crate::markdown::Destination::of(address, target) {
        crate::markdown::Destination::Inside(file, anchor) => (file, anchor),
        other => panic!("{address}: {target} is {other:?}"),
    }
}

fn broken(files: &Files, address: &str, html: &str) -> Vec<String> {
    let mut targets = attributes(html, "href");
    targets.extend(attributes(html, "src"));
    targets.retain(|target| !target.contains("://"));
    let is_broken = |target: &&str| {
        let (file, anchor) = followed(address, target);
        let Some(content) = files.get(&file) else {
            return true;
        };
        anchor.is_some_and(|it| !attributes(text(content), "id").contains(&&*it))
    };
    let broken = targets.into_iter().filter(is_broken);
    broken
        .map(|target| format!("{address}: {target}"))
        .collect()
}

#[test]
fn every_address_of_every_page_leads_to_a_file_and_a_heading_of_the_site() {
    let files = build(&root()).unwrap();
    let pages = files
        .iter()
        .filter(|(address, _)| address.ends_with(".html"));
    let broken: BTreeSet<String> = pages
        .flat_map(|(address, content)| broken(&files, address, text(content)))
        .collect();
    let broken: Vec<String> = broken.into_iter().collect();
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn pages_load_nothing_from_elsewhere_and_have_no_script_of_their_own() {
    let files = build(&root()).unwrap();
    let pages = files
        .iter()
        .filter(|(address, _)| address.ends_with(".html"));
    for (address, content) in pages {
        let html = text(content);
        let loaded = attributes(html, "src");
        assert!(!loaded.iter().any(|it| it.contains("//")), "{address}");
        assert_eq!(html.matches("<script").count(), 1, "{address}");
        assert!(html.contains("defer></script>"), "{address}");
    }
}

#[test]
fn front_page_has_the_words_commands_and_figure_of_the_readme() {
    let files = build(&root()).unwrap();
    let front = text(&files[FRONT]);
    assert!(front.contains("<strong>the log is the\ndatabase</strong>"));
    assert!(front.contains("cargo run --release -- serve"));
    assert!(front.contains("etcdctl put greeting hello\netcdctl get greeting"));
    assert!(front.contains(".svg\" alt="));
}

/// The site of three small pages.
fn small(readme: &str) -> Outcome<Files> {
    let directory = tempfile::tempdir()?;
    let root = directory.path();
    fs::create_dir_all(root.join("docs/decisions"))?;
    fs::write(root.join("a.rs"), "")?;
    fs::write(root.join("p.svg"), "")?;
    let figure = "[![it](p.svg)](docs/decisions/0001.md)\n\n```\na\n```\n\n```\nb\n```\n";
    fs::write(
        root.join("README.md"),
        format!("# R\n\nlead\n\n{figure}\n{readme}"),
    )?;
    let contents = "# Contents\n\n## Inside\n\n- [Decisions](decisions/)\n";
    fs::write(root.join("docs/contents.md"), contents)?;
    let decision = "# 0001: a *choice*\n\nFirst. Second.\n\n## Why\n\n<b>x</b> <!-- y -->\n";
    fs::write(root.join("docs/decisions/0001.md"), decision)?;
    build(root)
}

#[test]
fn links_lead_to_pages_and_sources_become_paths() {
    let files = small("[why](docs/decisions/0001.md#why), [code](a.rs)").unwrap();
    let page = text(&files["readme.html"]);
    assert!(page.contains("<a href=\"docs/decisions/0001.html#why\">why</a>"));
    assert!(page.contains("<span class=\"source\">code <code class=\"path\">a.rs</code></span>"));
}

#[test]
fn a_link_that_shows_a_path_shows_the_title_of_its_page() {
    let files =
        small("[docs/decisions/0001.md](docs/decisions/0001.md), [0001](docs/decisions/0001.md)");
    let files = files.unwrap();
    let page = text(&files["readme.html"]);
    assert!(page.contains("<a href=\"docs/decisions/0001.html\">0001: a choice</a>"));
    assert!(page.contains("<a href=\"docs/decisions/0001.html\">0001</a>"));
}

#[test]
fn a_folder_has_a_page_with_the_first_sentences_of_its_pages() {
    let files = small("").unwrap();
    let list = text(&files["docs/decisions/index.html"]);
    assert!(list.contains("<a href=\"../../docs/decisions/0001.html\">0001: a choice</a>"));
    assert!(list.contains("First.") && !list.contains("Second."));
}

#[test]
fn headings_have_anchors_and_foreign_html_is_shown_as_text() {
    let files = small("").unwrap();
    let page = text(&files["docs/decisions/0001.html"]);
    assert!(page.contains("<h2 id=\"why\">Why<a class=\"anchor\" href=\"#why\""));
    assert!(page.contains("&lt;b&gt;x&lt;/b&gt;") && !page.contains("<!-- y"));
}

#[test]
fn a_broken_link_and_a_page_without_a_place_are_refused() {
    let error = small("[no](docs/no.md)").unwrap_err().to_string();
    assert!(
        error.contains(": `docs/no.md`: there is no docs/no.md"),
        "{error}"
    );
    let directory = tempfile::tempdir().unwrap();
    let docs = directory.path().join("docs");
    fs::create_dir(&docs).unwrap();
    fs::write(docs.join("contents.md"), "# Contents\n").unwrap();
    fs::write(docs.join("lost.md"), "# Lost\n").unwrap();
    let error = build(directory.path()).unwrap_err().to_string();
    assert!(
        error.contains("docs/lost.md: docs/contents.md has no link"),
        "{error}"
    );
}

fn site(addresses: &[&str]) -> Files {
    let files = addresses.iter();
    files
        .map(|it| ((*it).to_owned(), b"new".to_vec()))
        .collect()
}

#[test]
fn an_earlier_site_is_replaced_and_files_beside_it_stay() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    write(
        directory.path(),
        &site(&["index.html", "use/a.html", "old/b.html"]),
    )
    .unwrap();
    fs::write(at("CNAME"), "").unwrap();
    fs::write(at("use/mine"), "").unwrap();
    // A file that an interrupted run did not write.
    fs::remove_file(at("index.html")).unwrap();
    write(directory.path(), &site(&["index.html", "use/c.html"])).unwrap();
    let is_there = |name: &str| at(name).exists();
    assert!(is_there("index.html") && is_there("use/c.html"));
    assert!(!is_there("use/a.html") && !is_there("old"));
    assert!(is_there("CNAME") && is_there("use/mine"));
}

#[test]
fn a_directory_of_other_files_and_a_list_of_paths_elsewhere_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("index.html"), "mine").unwrap();
    assert!(write(directory.path(), &site(&["index.html"])).is_err());
    let kept = fs::read_to_string(directory.path().join("index.html")).unwrap();
    assert_eq!(kept, "mine");
    let out = directory.path().join("site");
    write(&out, &site(&["index.html"])).unwrap();
    for foreign in ["../index.html", "/etc/hosts", "a/../../index.html"] {
        fs::write(out.join(LIST), foreign).unwrap();
        let error = write(&out, &site(&["index.html"])).unwrap_err().to_string();
        assert!(error.contains("is no file of a site"), "{error}");
    }
    assert!(directory.path().join("index.html").exists());
}

#[test]
fn an_error_names_the_path() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    fs::write(&file, "").unwrap();
    let error = write(&file, &site(&["index.html"]))
        .unwrap_err()
        .to_string();
    assert!(error.contains(&file.display().to_string()), "{error}");
}
