"""An instantiation template: a block's instance, with a wire for every port, to copy from."""

from typing import Any


def template(sidecar: dict[str, Any]) -> str:
    """Return wires and an instance of the block as Verilog-2005, to be included in a module.

    Ports are grouped by interface, under the interface's description. Clocks and resets connect to
    nets of their own names, which the module around must have.

    Parameters
    ----------
    sidecar
        The block's description, as `cdma.hw.emit.verilog.generate` gives it.
    """
    module = sidecar["module"]
    clocking = [sidecar["clock"], sidecar["reset"]["port"]]
    for other in sidecar["other_clocks"]:
        clocking += [other["clock"], other["reset"]]
    lines = [
        f"// Instantiation template of {module}, by {sidecar['generator']}: copy it, or include it",
        f"// in a module that has {', '.join(clocking[:-1])} and {clocking[-1]}.",
        *(f"//   {name} = {_text(value)}" for name, value in sidecar["parameters"].items()),
    ]
    for interface in sidecar["interfaces"]:
        lines += ["", f"// {_title(interface)}"]
        for port in interface["ports"]:
            width = port["width"]
            shape = f"[{width - 1}:0] " if width > 1 else ""
            about = f"  // {port['description']}" if port["description"] else ""
            lines.append(f"wire {shape}{module}_{port['name']};{about}")
    lines += ["", f"{module} {module}_instance (", *(f"  .{pin}({pin})," for pin in clocking)]
    last = sidecar["interfaces"][-1]["ports"][-1]
    for interface in sidecar["interfaces"]:
        lines += ["", f"  // {interface['name']}: {interface['kind']}, {interface['role']}"]
        for port in interface["ports"]:
            comma = "" if port is last else ","
            direction = port["direction"]
            lines.append(f"  .{port['name']}({module}_{port['name']}){comma}  // {direction}")
    return "\n".join([*lines, ");", ""])


def _title(interface: dict[str, Any]) -> str:
    about = f"{interface['name']}: {interface['kind']}, {interface['role']}"
    description = " ".join(interface["description"].replace("`", "").split())
    return f"{about}. {description}".rstrip()


def _text(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
