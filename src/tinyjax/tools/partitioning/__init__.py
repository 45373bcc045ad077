"""What a program will do on the devices of a mesh, before it runs."""

from tinyjax.exports import publish
from tinyjax.tools.partitioning.partition import partition as partition
from tinyjax.tools.partitioning.records import Collective as Collective
from tinyjax.tools.partitioning.records import Gather as Gather
from tinyjax.tools.partitioning.records import Memory as Memory
from tinyjax.tools.partitioning.records import OpenLoop as OpenLoop
from tinyjax.tools.partitioning.records import Placed as Placed
from tinyjax.tools.partitioning.report import PartitionReport as PartitionReport
from tinyjax.tools.partitioning.residuals import Kept as Kept

publish(__name__)
