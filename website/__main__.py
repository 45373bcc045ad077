"""`python -m website` writes what the generator reads, and prints where its configuration is."""

import sys

from website.assemble import ROOT, assemble

sys.stdout.write(f"{assemble(ROOT / 'build' / 'docs')}\n")
