//! Rules of the page's files.

use super::*;

fn text(file: &File) -> String {
    String::from_utf8(file.plain()).expect("text")
}

/// The texts behind each `before` up to the next quotation mark.
fn quoted<'a>(text: &'a str, before: &'a str) -> impl Iterator<Item = &'a str> {
    let parts = text.split(before).skip(1);
    parts.filter_map(|part| part.split(['"', '\'']).next())
}

#[test]
fn all_files_together_fit_in_200_kilobytes_compressed() {
    let bytes: usize = files().iter().map(|file| file.compressed.len()).sum();
    assert!(bytes <= COMPRESSED_BYTES_MAX, "{bytes} bytes");
}

#[test]
fn a_file_is_found_by_its_path_and_inflates_to_its_size() {
    assert!(find(INDEX).is_some());
    for file in files() {
        assert_eq!(find(file.path), Some(file));
        assert_eq!(file.plain().len(), file.bytes, "{}", file.path);
    }
    for path in ["", "/", "index", "../Cargo.toml", "INDEX.HTML"] {
        assert_eq!(find(path), None, "{path:?}");
    }
}

#[test]
fn tags_differ_where_contents_differ() {
    for (place, file) in files().iter().enumerate() {
        let rest = files()[place + 1..].iter();
        let mut twins = rest.filter(|other| other.tag == file.tag);
        assert!(
            twins.all(|twin| twin.plain() == file.plain()),
            "{}",
            file.path
        );
    }
}

#[test]
fn documents_have_no_inline_script_and_no_inline_style() {
    for file in files().iter().filter(|file| file.path.ends_with(".html")) {
        let document = text(file).to_lowercase();
        for element in document.split("<script").skip(1) {
            let (head, body) = element.split_once('>').expect("an open tag ends");
            assert!(head.contains("src="), "{}: <script{head}>", file.path);
            assert!(body.trim_start().starts_with("</script>"), "{}", file.path);
        }
        for forbidden in [
            "<style",
            " style=",
            "javascript:",
            "<base",
            "<iframe",
            "<object",
        ] {
            assert!(!document.contains(forbidden), "{}: {forbidden}", file.path);
        }
        for word in document.split_ascii_whitespace() {
            let is_handler = word.starts_with("on") && word.contains('=');
            assert!(!is_handler, "{}: {word}", file.path);
        }
    }
}

#[test]
fn documents_name_only_files_that_exist() {
    for file in files().iter().filter(|file| file.path.ends_with(".html")) {
        let document = text(file);
        let named = ["src=\"", "href=\""].map(|before| quoted(&document, before));
        for name in named
            .into_iter()
            .flatten()
            .filter(|name| !name.starts_with('#'))
        {
            assert!(find(name).is_some(), "{} names {name}", file.path);
        }
    }
}

#[test]
fn modules_import_only_files_that_exist() {
    for file in files()
        .iter()
        .filter(|file| file.kind.starts_with("text/javascript"))
    {
        let module = text(file);
        let folder = file.path.rsplit_once('/').map_or("", |(folder, _)| folder);
        let befores = [
            "from \"",
            "from '",
            "import \"",
            "import '",
            "import(\"",
            "import('",
        ];
        let named = befores
            .into_iter()
            .flat_map(|before| quoted(&module, before));
        for name in named.filter(|name| name.starts_with('.')) {
            let path = joined(folder, name);
            assert!(find(&path).is_some(), "{} imports {name}", file.path);
        }
    }
}

/// The path of a relative name within a folder.
fn joined(folder: &str, name: &str) -> String {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in name.split('/') {
        match part {
            "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

#[test]
fn no_file_asks_another_server() {
    for file in files()
        .iter()
        .filter(|file| !file.kind.starts_with("image/"))
    {
        let text = text(file);
        for before in ["fetch(\"", "fetch('", "src=\"", "url("] {
            let mut elsewhere = quoted(&text, before).filter(|name| name.contains("//"));
            assert_eq!(elsewhere.next(), None, "{}", file.path);
        }
        for forbidden in ["eval(", "new Function(", "document.write("] {
            assert!(!text.contains(forbidden), "{}: {forbidden}", file.path);
        }
    }
}

#[test]
fn the_policy_allows_nothing_inline_and_no_other_server() {
    for forbidden in ["unsafe", "*", "http"] {
        assert!(!CONTENT_SECURITY_POLICY.contains(forbidden), "{forbidden}");
    }
}
