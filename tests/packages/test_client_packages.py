"""The packages of the clients, as `make clients` builds them, are installed and built into programs."""

import json
import re
import shutil
import sys
from pathlib import Path

import pytest

from tests.deploy.programs import program
from tests.packages.tools import NODE_MODULES, SCRIPTS, npm_program, run
from tools.clients import CLIENTS, GO_MODULE, build, read_version

VERSION = read_version()
#: The formats of archives by their suffixes.
_FORMATS = {".zip": "zip", ".tgz": "gztar", ".gz": "gztar"}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("clients")
    build(folder)
    return folder


def unpack(archive: Path, folder: Path) -> None:
    shutil.unpack_archive(archive, folder, _FORMATS[archive.suffix])


def files_of(folder: Path) -> dict[str, bytes]:
    return {str(one.relative_to(folder)): one.read_bytes() for one in folder.rglob("*") if one.is_file()}


def test_two_builds_are_the_same(built: Path, tmp_path: Path) -> None:
    build(tmp_path)
    assert files_of(built) == files_of(tmp_path)


def test_every_package_has_the_version_its_changes_and_the_license(built: Path, tmp_path: Path) -> None:
    named = {
        "javascript": json.loads((CLIENTS / "javascript" / "package.json").read_text())["version"],
        "php": json.loads((CLIENTS / "php" / "composer.json").read_text())["version"],
        "csharp": re.findall(
            "<Version>(.+)</Version>", (CLIENTS / "csharp" / "Keywright.csproj").read_text()
        )[0],
        "c": re.findall(r"VERSION ([\d.]+) LANG", (CLIENTS / "c" / "CMakeLists.txt").read_text())[0],
        "changes": re.findall(r"^## ([\d.]+)$", (CLIENTS / "CHANGELOG.md").read_text(), re.MULTILINE)[0],
    }
    assert named == dict.fromkeys(named, VERSION)
    archives = [one for one in built.rglob("*") if one.suffix in _FORMATS]
    assert len(archives) == 6
    for archive in archives:
        shutil.unpack_archive(archive, tmp_path / archive.name, _FORMATS[archive.suffix])
        found = {one.name for one in (tmp_path / archive.name).rglob("*")}
        assert {"CHANGELOG.md", "LICENSE", "README.md"} <= found, archive.name


def test_the_npm_package_has_every_file_that_it_names(built: Path, tmp_path: Path) -> None:
    unpack(built / f"keywright-client-{VERSION}.tgz", tmp_path)
    described = json.loads((tmp_path / "package" / "package.json").read_text())
    named = {
        path.removeprefix("./")
        for one in described["exports"].values()
        for path in (one.values() if isinstance(one, dict) else [one])
    }
    assert {*named, *described["files"]} == set(files_of(tmp_path / "package"))


@pytest.fixture
def node_program(built: Path, tmp_path: Path) -> Path:
    """The folder of a program whose node_modules have the package."""
    modules = tmp_path / "node_modules"
    modules.mkdir()
    unpack(built / f"keywright-client-{VERSION}.tgz", tmp_path)
    (tmp_path / "package").rename(modules / "keywright-client")
    (modules / "@types").symlink_to(NODE_MODULES / "@types")
    (modules / "undici-types").symlink_to(NODE_MODULES / "undici-types")
    (tmp_path / "package.json").write_text('{"type": "module"}')
    return tmp_path


def test_types_of_the_npm_package_fit_a_program_which_node_runs(node_program: Path) -> None:
    shutil.copy(SCRIPTS / "client_types.ts", node_program / "script.ts")
    shutil.copy(SCRIPTS / "tsconfig.json", node_program)
    tsc = [npm_program("tsc"), "-p", "tsconfig.json", "--skipLibCheck", "false"]
    run([*tsc, "--module", "nodenext", "--moduleResolution", "nodenext"], node_program)
    run([*tsc, "--noEmit", "false"], node_program)
    assert run(["node", "script.js"], node_program) == "not_activated\n"


def test_esbuild_and_vite_build_it_for_a_browser(node_program: Path) -> None:
    shutil.copy(SCRIPTS / "page.js", node_program)
    esbuild = [npm_program("esbuild"), "page.js", "--bundle", "--platform=browser", "--outfile=out.js"]
    run(esbuild, node_program)
    (node_program / "index.html").write_text('<script type="module" src="page.js"></script>')
    run([npm_program("vite"), "build"], node_program)
    for made in (node_program / "out.js", *node_program.glob("dist/assets/*.js")):
        assert "keywright-license+jwt" in made.read_text()


def test_the_main_process_of_electron_takes_it_bundled_as_commonjs(node_program: Path) -> None:
    shutil.copy(SCRIPTS / "main.js", node_program)
    bundle = ["--bundle", "--platform=node", "--format=cjs", "--external:electron", "--outfile=main.cjs"]
    run([npm_program("esbuild"), "main.js", *bundle], node_program)
    assert run(["node", "main.cjs"], node_program) == "not_activated\n"


def test_the_wheel_is_installed_with_its_command(built: Path, tmp_path: Path) -> None:
    (wheel,) = built.glob("*.whl")
    assert list(built.glob("keywright_client-*.tar.gz"))
    pip = [sys.executable, "-m", "pip", "--quiet", "install", "--no-index", "--target", "installed"]
    run([*pip, str(wheel)], tmp_path)
    command = [str(tmp_path / "installed" / "bin" / "keywright-client"), "fingerprint", "--product", "editor"]
    environment = {"HOME": str(tmp_path), "PYTHONPATH": str(tmp_path / "installed")}
    assert len(run(command, tmp_path, **environment).split()[0]) >= 8


def test_go_gets_the_module_from_the_folder(built: Path, tmp_path: Path) -> None:
    (tmp_path / "go.mod").write_text("module program\n\ngo 1.19\n")
    (tmp_path / "main.go").write_text(
        f'package main\n\nimport (\n\t"fmt"\n\n\t"{GO_MODULE}"\n)\n\n'
        'func main() {\n\tclient := keywright.Client{URL: "http://127.0.0.1:9", Path: "license.json"}\n'
        "\tfmt.Println(client.Check().State)\n}\n"
    )
    environment = {
        "GOPROXY": f"file://{built}/go",
        "GONOSUMDB": "*",
        "GOFLAGS": "-mod=mod -modcacherw",
        "GOMODCACHE": str(tmp_path / "modules"),
    }
    go = program("go")
    run([go, "get", f"{GO_MODULE}@v{VERSION}"], tmp_path, **environment)
    assert run([go, "run", "."], tmp_path, **environment) == "not_activated\n"


def test_php_finds_every_class_where_composer_looks(built: Path, tmp_path: Path) -> None:
    unpack(built / f"keywright-client-php-{VERSION}.zip", tmp_path)
    described = json.loads((tmp_path / "composer.json").read_text())
    (file,) = described["autoload"]["classmap"]
    script = f"require '{file}'; echo class_exists('Keywright\\\\Keywright') ? 'there' : 'missing';"
    assert run([program("php"), "-r", script], tmp_path) == "there"


def test_the_project_for_net_compiles_what_it_names(built: Path, tmp_path: Path) -> None:
    unpack(built / f"keywright-client-csharp-{VERSION}.zip", tmp_path)
    project = (tmp_path / "Keywright.csproj").read_text()
    sources = re.findall('<Compile Include="(.+)" />', project)[0].split(";")
    reference = "-r:System.Numerics.dll"
    run(
        [program("mcs"), "-target:library", "-langversion:7", reference, "-out:client.dll", *sources],
        tmp_path,
    )


def test_the_library_for_c_is_built_installed_and_linked(built: Path, tmp_path: Path) -> None:
    unpack(built / f"keywright-client-c-{VERSION}.tar.gz", tmp_path)
    cmake = program("cmake")
    source = tmp_path / f"keywright-client-c-{VERSION}"
    run([cmake, "-S", str(source), "-B", "build", f"-DCMAKE_INSTALL_PREFIX={tmp_path}/usr"], tmp_path)
    run([cmake, "--build", "build"], tmp_path)
    run([cmake, "--install", "build"], tmp_path)
    (tmp_path / "main.c").write_text(
        "#include <keywright.h>\nint main(void) { return keywright_verify == 0; }\n"
    )
    (described,) = tmp_path.glob("usr/lib*/**/pkgconfig/keywright_client.pc")
    described_in = {"PKG_CONFIG_PATH": str(described.parent)}
    named = [program("pkg-config"), "--cflags", "--libs", "keywright_client"]
    run([program("gcc"), "main.c", "-o", "main", *run(named, tmp_path, **described_in).split()], tmp_path)
    run(["./main"], tmp_path)
