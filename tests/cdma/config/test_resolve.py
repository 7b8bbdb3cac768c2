"""Names, files and hooks: each becomes the class's own object, or one clear error."""

import json
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from cdma.config import (
    BUDDY,
    DEVICE,
    ENGINE,
    KINDS,
    LINK,
    MACHINE,
    NETWORK,
    THROTTLE,
    as_toml,
    find,
    table_of,
    tables_of,
)
from cdma.errors import UserError
from cdma.hw.config import (
    METADATA_CACHES,
    PRESETS,
    BuddyConfig,
    CodecConfig,
    ConfigError,
    EngineConfig,
)
from cdma.plan.platform.device import DEVICES
from cdma.plan.platform.environment import MACHINES
from cdma.plan.platform.link import LINKS, Link
from cdma.plan.timeline.errors import ScheduleError
from cdma.plan.workload.builder import Builder
from cdma.plan.workload.graph import Graph


def written(text: str, name: str = "mine.toml") -> str:
    Path(name).write_text(text, encoding="utf-8")
    return name


def test_an_engine_s_file_is_an_engine():
    found = find(ENGINE, "engine.toml")
    codec = CodecConfig(sector_bytes=64)
    assert found.value == EngineConfig(codec=codec, units=3, host_bytes=64)
    assert (found.label, found.base, found.path) == ("engine.toml", None, Path("engine.toml"))


def test_a_file_begins_with_a_preset():
    text = '[engine]\npreset = "v100_nvlink2"\nunits = 4\n[engine.codec]\nelement_bytes = 2\n'
    found = find(ENGINE, written(text))
    volta = PRESETS["v100_nvlink2"]
    assert found.base == "v100_nvlink2"
    assert found.value == replace(volta, units=4, codec=replace(volta.codec, element_bytes=2))


def test_what_follows_from_other_keys_need_not_be_given():
    device = find(DEVICE, "device.toml").value
    titan = DEVICES["titanx"]
    assert (device.name, device.source, device.engine) == ("device", "device.toml", "titanx_gen3")
    assert (device.capacity_bytes, device.peak_flops) == (6_000_000_000, titan.peak_flops)
    assert isinstance(device.capacity_bytes, int)
    assert device.efficiency == {**titan.efficiency, "conv": 0.5}
    assert find(LINK, "link.toml").value == Link("link", 10e9, "link.toml")
    # The way back of the preset is not that of another rate.
    text = '[link]\npreset = "v100-pcie"\nbytes_per_s = 20e9\n'
    assert find(LINK, written(text)).value.in_bytes_per_s == 20e9


def test_a_link_of_a_file_is_shared_as_a_named_one_is():
    assert find(LINK, "link.toml/4").value.bytes_per_s == 2.5e9
    assert find(LINK, "pcie3x16/4").value == LINKS["pcie3x16"].shared_by(4)


def test_parts_have_presets_of_their_own():
    text = '[buddy]\npages = 16\n[buddy.cache]\npreset = "tiny"\nmisses = 4\n'
    cache = replace(METADATA_CACHES["tiny"], misses=4)
    assert find(BUDDY, written(text)).value == BuddyConfig(pages=16, cache=cache)


def test_a_network_of_a_file_is_what_the_builder_makes_of_its_layers():
    network = find(NETWORK, "network.toml").value
    net = Builder(4)
    x = net.relu("relu1", net.conv("conv1", net.input("data", 3, 16, 16), 8, 3, pad=1))
    x = net.add("sum", net.conv("conv2", x, 8, (3, 3), pad=(1, 1)), x)
    net.softmax("prob", net.fc("fc", x, 10))
    made, graph = net.table(), network.graph()
    assert (graph.name, graph.batch) == ("network", 4)
    assert (graph.layers, graph.tensors) == (made.layers, made.tensors)
    assert network.changed(batch=8).graph().batch == 8


def test_a_shipped_network_with_changes():
    text = '[network]\npreset = "resnet50"\nbatch = 7\nprecision = "bf16"\noptimizer = "adam"\n'
    graph = find(NETWORK, written(text)).value.graph()
    assert graph == Graph.from_table("resnet50", 7, precision="bf16", optimizer="adam")


def test_hooks_are_objects_or_functions():
    assert find(ENGINE, "my_hooks:engine").value == EngineConfig(units=2)
    assert find(DEVICE, "my_hooks:DEVICE").value.capacity_bytes == 10**9
    network = find(NETWORK, "my_hooks:network").value
    assert (network.name, network.graph().batch) == ("network", 16)
    graph = find(NETWORK, "my_hooks:graph").value
    assert (graph.name, graph.graph().batch) == ("written", 8)
    text = '[network]\nhook = "my_hooks:network"\nbatch = 2\n'
    assert find(NETWORK, written(text)).value.graph().batch == 2


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_every_preset_comes_back_from_toml_and_json(kind):
    for name in kind.presets:
        found = find(kind, name)
        assert (found.label, found.base) == (name, name)
        tables = tables_of(found.value)
        assert list(tables) == [kind.name]
        assert tomllib.loads(as_toml(tables)) == tables
        Path("one.toml").write_text(as_toml(tables), encoding="utf-8")
        Path("one.json").write_text(json.dumps({"configuration": tables}), encoding="utf-8")
        for file in ("one.toml", "one.json"):
            again = find(kind, file).value
            if kind is NETWORK:
                assert again.graph() == found.value.graph()
            else:
                assert again == found.value


@pytest.mark.parametrize(
    ("kind", "name"),
    [(ENGINE, "engine"), (MACHINE, "machine"), (DEVICE, "device"), (LINK, "link")],
)
def test_a_file_comes_back_from_its_tables(kind, name):
    value = find(kind, f"{name}.toml").value
    written(as_toml(tables_of(value)))
    assert find(kind, "mine.toml").value == value


def test_a_network_comes_back_from_its_table():
    value = find(NETWORK, "network.toml").value
    written(as_toml({"network": table_of(value)}))
    assert find(NETWORK, "mine.toml").value.graph() == value.graph()


@pytest.mark.parametrize("text", ['a "quoted" \\ path', "tab\tand\nline", "é – 漢", "\x7f"])
def test_texts_of_any_kind_come_back(text):
    tables = {"link": {"name": text, "bytes_per_s": 1e9, "source": text}}
    assert tomllib.loads(as_toml(tables)) == tables


ENGINES = ", ".join(PRESETS)

WRONG = [
    (ENGINE, "[engine", "is not TOML: Expected ']'"),
    (ENGINE, "[engine]\nunits = three\n", "is not TOML: Invalid value (at line 2, column 9)"),
    (
        ENGINE,
        "",
        f"has no [engine] but no table; give a file with [engine] in it, or one of {ENGINES}",
    ),
    (ENGINE, "[device]\npeak_flops = 1.0\n", "has no [engine] but [device]; give a file with"),
    (ENGINE, "[engin]\nunits = 3\n", "there is no table [engin]; did you mean 'engine'? tables "),
    (ENGINE, "units = 3\n", "key 'units' is in no table; write [engine] above it"),
    (ENGINE, "[engine]\nunit = 3\n", "[engine] has no key 'unit'; did you mean 'units'? it may "),
    (ENGINE, "[engine]\nunits = '3'\n", "[engine] units must be a whole number, not '3'"),
    (ENGINE, "[engine]\nunits = 3.5\n", "[engine] units must be a whole number, not 3.5"),
    (ENGINE, "[engine]\nunits = true\n", "[engine] units must be a whole number, not true"),
    (ENGINE, "[engine]\nunits = 17\n", "[engine] units must be 1 to 16, not 17"),
    (ENGINE, "[engine]\ncodec = 3\n", "codec must be a table, written as [engine.codec], not 3"),
    (
        ENGINE,
        "[engine.codec]\nsector_bytes = 48\n",
        "[engine.codec] sector_bytes must be 32, 64 or 128, not 48",
    ),
    (
        ENGINE,
        "[engine.codec]\ncodecs = 'zvc'\n",
        'codecs must be a list, as ["zvc", "raw"], not \'zvc\'',
    ),
    (
        ENGINE,
        "[engine]\nhost_bytes = 48\n[engine.codec]\nsector_bytes = 64\n",
        "[engine] host_bytes must be 4, 8, 16, 32, 64 or 128, not 48",
    ),
    (
        ENGINE,
        "[engine]\npreset = 'titanx'\n",
        f"preset must be one of {ENGINES}, not 'titanx'; did you mean",
    ),
    (MACHINE, "[machine]\nclock_hz = inf\n", "[machine] clock_hz must be a number, not inf"),
    (MACHINE, "[machine]\nclock_hz = -1.0\n", "[machine] clock_hz must be more than 0, not -1.0"),
    (DEVICE, "[device]\npeak_flops = 1e12\n", "[device] needs dram_bytes_per_s, capacity_bytes; "),
    (
        DEVICE,
        "[device]\npreset = 'k40'\nengine = 'mine'\n",
        f"engine must be one of {', '.join(MACHINES)}, not 'mine'",
    ),
    (
        DEVICE,
        "[device]\npreset = 'k40'\nefficiency = {convs = 1}\n",
        "[device.efficiency] has no key 'convs'; did you mean 'conv'?",
    ),
    (
        DEVICE,
        "[device]\npreset = 'k40'\nefficiency_error = {convs = 1}\n",
        "[device.efficiency_error] has no key 'convs'; did you mean 'conv'?",
    ),
    (
        DEVICE,
        "[device]\npreset = 'k40'\ncodec_bytes_per_s = {zvc-sm = 0}\n",
        "codec_bytes_per_s of zvc-sm on mine must be more than 0, not 0.0",
    ),
    (
        DEVICE,
        "[device]\npreset = 'k40'\ncodec_error = {zfp = -1}\n",
        "codec_error of zfp on mine must be 0 or more, not -1.0",
    ),
    (
        DEVICE,
        "[device]\npreset = 'k40'\nefficiency = {conv = 2}\n",
        "efficiency of conv on mine must be more than 0 and at most 1, not 2.0",
    ),
    (LINK, "[link]\nbytes_per_s = 0\n", "[link] bytes_per_s of link mine must be more than 0, not"),
    (THROTTLE, "[throttle]\nbytes_per_s = -1\n", "bytes_per_s of throttle mine must be 0, for no"),
    (BUDDY, "[buddy.cache]\npreset = 'big'\n", "[buddy.cache] preset must be one of paper_3_2, "),
    (
        NETWORK,
        "[network]\nbatch = 3\n",
        "[network] must have one of preset, layers and hook, not 0",
    ),
    (NETWORK, "[network]\npreset = 'resnet'\n", "not 'resnet'; did you mean 'resnet50'?"),
    (
        NETWORK,
        "[network]\npreset = 'vgg16'\nbatch = 0\n",
        "[network] batch must be at least 1, not",
    ),
    (NETWORK, "[network]\nlayers = 3\n", "layers must be a list, each written below [[network.la"),
]


@pytest.mark.parametrize(("kind", "text", "message"), WRONG)
def test_an_error_names_file_table_key_value_and_what_is_right(kind, text, message):
    with pytest.raises(UserError) as raised:
        find(kind, written(text))
    assert str(raised.value).startswith("mine.toml")
    assert message in str(raised.value)


LAYERS = [
    ("op = 'relu'\n", "[network.layers 2] name must be a text in quotes, not None"),
    ("op = 'rely'\nname = 'r'\n", "not 'rely'; did you mean 'relu'?"),
    (
        "op = 'relu'\nname = 'r'\nz = 1\n",
        "[network.layers 2] has no key 'z'; it may have op, name, x",
    ),
    (
        "op = 'relu'\nname = 'r'\nx = 'dat'\n",
        "x must be the name of a layer before it, not 'dat'; did you mean 'data'?",
    ),
    ("op = 'conv'\nname = 'c'\nkernel = 3\n", "conv needs channels; add KEY = VALUE for each"),
    (
        "op = 'conv'\nname = 'c'\nchannels = 'x'\nkernel = 3\n",
        "channels must be a whole number, not 'x'",
    ),
    (
        "op = 'conv'\nname = 'c'\nchannels = 2\nkernel = [1, 2, 3]\n",
        "kernel must be whole number, or list of two, not",
    ),
    (
        "op = 'conv'\nname = 'c'\nchannels = 2\nkernel = 99\n",
        "layer c: a window of 99 does not fit",
    ),
    ("op = 'add'\nname = 'a'\nxs = 'data'\n", "xs must be list of names of layers, not 'data'"),
    ("op = 'relu'\nname = 'data'\n", "network has two tensors 'data'"),
]


@pytest.mark.parametrize(("layer", "message"), LAYERS)
def test_an_error_in_a_layer_names_it(layer, message):
    first = "[[network.layers]]\nop = 'input'\nname = 'data'\nshape = [3, 8, 8]\n"
    with pytest.raises(UserError, match=r"^network\.toml: \[network") as raised:
        find(
            NETWORK,
            written(f"[network]\nbatch = 2\n{first}[[network.layers]]\n{layer}", "network.toml"),
        )
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("kind", "text", "message"),
    [
        (ENGINE, "none.toml", "cannot read none.toml: No such file or directory; check the path"),
        (
            ENGINE,
            "none:engine",
            "none:engine: there is no module none; run the command in its fold",
        ),
        (
            ENGINE,
            "my_hooks:engin",
            "my_hooks:engin: my_hooks has no 'engin'; define it, or name one of ",
        ),
        (
            ENGINE,
            "my_hooks:NUMBER",
            "my_hooks:NUMBER must be of class EngineConfig, or a function without",
        ),
        (ENGINE, "my_hooks:graph", "that returns one, not Graph"),
        (ENGINE, "my_hooks:impossible", "my_hooks:impossible: units must be 1 to 16, not 99"),
        (ENGINE, "my_hooks:broken", "my_hooks:broken: ZeroDivisionError: division by zero in "),
        (NETWORK, "my_hooks:engine", "my_hooks:engine must be of class Network or Graph, or a "),
    ],
)
def test_missing_files_and_wrong_hooks_are_told(kind, text, message):
    with pytest.raises(UserError) as raised:
        find(kind, text)
    assert message in str(raised.value)


def test_json_without_a_configuration_is_told():
    with pytest.raises(UserError, match=r"a\.json has no 'configuration' in it; give what a "):
        find(ENGINE, written('{"units": 3}', "a.json"))
    with pytest.raises(UserError, match=r"a\.json is not JSON: "):
        find(ENGINE, written("units = 3", "a.json"))
    Path("b.toml").write_bytes(b"[engine]\nunits = 3 # \xff\n")
    with pytest.raises(UserError, match=r"b\.toml is not UTF-8, byte 21; save it as UTF-8"):
        find(ENGINE, "b.toml")


def test_an_unknown_name_is_told_with_the_nearest():
    with pytest.raises(ConfigError, match="not 'titanx_gen4'; did you mean 'titanx_gen3'"):
        find(ENGINE, "titanx_gen4")
    with pytest.raises(
        ScheduleError, match=r"unknown device 'cray'; choose from .*h200-calibrated$"
    ):
        find(DEVICE, "cray")
    Path("engine.ini").write_text("x")
    with pytest.raises(UserError, match=r"engine\.ini ends in neither \.toml nor \.json; give"):
        find(ENGINE, "engine.ini")


def test_a_graph_of_a_hook_is_as_it_is():
    with pytest.raises(UserError, match="written is a graph already, whose batch is as it is"):
        find(NETWORK, written('[network]\nhook = "my_hooks:graph"\nbatch = 2\n'))
