"""What must hold of every projection (DESIGN §5): the rules that `foldline verify` applies to files."""

from foldline.context.invariants import broken

__all__ = ["broken"]
