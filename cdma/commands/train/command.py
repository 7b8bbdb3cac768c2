"""`cdma train`: a step of PyTorch that keeps a plan, beside the step as it is."""

import os
from typing import Annotated

import typer

from cdma.commands.completers import named
from cdma.commands.config_options import DEVICE_NAMES, LINK_NAMES, METAVAR
from cdma.commands.json_option import AsJson, print_json
from cdma.commands.schedule.command import parse_bytes
from cdma.commands.train.report import TrainResult, as_dict, print_report
from cdma.config import DEVICE, LINK, find, tables_of
from cdma.errors import UserError
from cdma.hw.config import preset
from cdma.plan.platform.environment import step_refusal
from cdma.plan.policies.registry import POLICIES
from cdma.plan.policies.registry import policy as policy_of
from cdma.plan.timeline.placement import Placement
from cdma.plan.training.subject import load
from cdma.schemas import document
from cdma.sim.driver import Engine
from cdma.sim.machine import MACHINES, Machine, machine_config
from cdma.sim.machine.build.rtl import generated_engine
from cdma.sim.swap.step.checkpointed import blocks_of, run_checkpointed
from cdma.sim.swap.step.step_planner import StepPlan, plan_step
from cdma.sim.swap.step.step_run import run_plain, run_planned
from cdma.terminal.console import terminal

MACHINE = "titanx_gen3"

LOSSY = ("comet", "joint-lossy")
"""Policies whose tensors may come back changed."""

PAGE_BYTES = 4096

LEAST_MEMORY_BYTES = 64 << 20
"""Of each memory of the engine's machine: what is on its way is there, too."""


def train(
    subject: Annotated[
        str,
        typer.Argument(
            metavar="MODULE:FUNCTION",
            help="A function that returns (module, example) or (module, example, loss, target).",
            show_default=False,
        ),
    ],
    memory: Annotated[
        str,
        typer.Option(
            metavar="BYTES",
            help="What the step may hold on the device, as 3GB, 2.5MiB or 3000000.",
            show_default=False,
        ),
    ],
    policy: Annotated[
        str,
        typer.Option(
            metavar="NAME", help=f"One of {', '.join(POLICIES)}.", autocompletion=named("policies")
        ),
    ] = "joint",
    device: Annotated[
        str,
        typer.Option(
            metavar=METAVAR,
            help=f"Whose times plans have: {DEVICE_NAMES}.",
            autocompletion=named("devices"),
        ),
    ] = "titanx",
    link: Annotated[
        str,
        typer.Option(
            metavar=METAVAR,
            help=f"One of {LINK_NAMES}.",
            autocompletion=named("links"),
        ),
    ] = "pcie3x16",
    machine: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help=f"Engine that moves: {', '.join(MACHINES)}.",
            autocompletion=named("machines"),
        ),
    ] = MACHINE,
    verify: Annotated[
        bool, typer.Option("--verify", help="Let the engine read back every stream it writes.")
    ] = False,
    seed: Annotated[
        int, typer.Option(min=0, help="Of the step's random numbers and the policy's.")
    ] = 0,
    as_json: AsJson = False,
) -> None:
    """Plan a PyTorch module's step within a memory, carry it out, and compare every bit.

    Exit status 1 if the loss, a gradient or a buffer differs in any bit.
    """
    # PyTorch's profiler, which looks at the allocator, writes to stderr otherwise.
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")
    policy_of(policy)
    if policy in LOSSY:
        raise UserError(
            f"policy {policy} loses something, and a step is compared bit for bit; choose another"
        )
    capacity = parse_bytes(memory)
    engine_config, environment = preset(machine), machine_config(machine)
    if refusal := step_refusal(machine, environment):
        raise UserError(refusal)
    found_device, found_link = find(DEVICE, device).value, find(LINK, link).value
    found = load(subject)
    step_plan = plan_step(
        found, policy, capacity, found_device, found_link, name=subject, seed=seed
    )
    plain = run_plain(found, seed=seed)
    blocks = blocks_of(found.module)
    checkpointed = run_checkpointed(found, blocks, seed=seed) if blocks else None
    with Machine(
        generated_engine(engine_config),
        environment,
        device_bytes=LEAST_MEMORY_BYTES,
        host_bytes=_host_bytes(step_plan),
    ) as simulated:
        planned = run_planned(found, step_plan, Engine(simulated), verify=verify, seed=seed)
    result = TrainResult(
        subject=subject,
        device=device,
        link=link,
        machine=machine,
        seed=seed,
        configuration=tables_of(engine_config, environment, found_device, found_link),
        step_plan=step_plan,
        planned=planned,
        plain=plain,
        blocks=blocks,
        checkpointed=checkpointed,
    )
    if as_json:
        print_json(document("train", as_dict(result)))
    else:
        print_report(terminal(), result)
    for name in planned.differing(plain):
        typer.echo(f"{name}: differs from the step without a plan", err=True)
    if planned.differing(plain):
        raise typer.Exit(1)


def _host_bytes(step_plan: StepPlan) -> int:
    """Room for all that is swapped, each as the worst stream of any codec, and a page each."""
    choices = step_plan.swap_plan.choices or {}
    swapped = [
        nbytes
        for name, nbytes in step_plan.rehearsal.counts.saved.items()
        if name in choices and choices[name].placement is Placement.SWAP
    ]
    nbytes = sum(2 * size + PAGE_BYTES for size in swapped)
    return LEAST_MEMORY_BYTES + -(-nbytes // PAGE_BYTES) * PAGE_BYTES
