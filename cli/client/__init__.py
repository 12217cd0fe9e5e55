"""The api, as the commands use it: a class for each topic, all of them one client."""

from cli.client.agents import Agents
from cli.client.connection import ApiError
from cli.client.conversation import Conversations
from cli.client.inbox import Inbox
from cli.client.installation import OfInstallation
from cli.client.knowledge import Knowledge
from cli.client.merges import Merges
from cli.client.proof import Proof
from cli.client.sources import Sources
from cli.client.spending import Spending

__all__ = ["ApiError", "Client"]


class Client(
    Agents, Knowledge, Merges, Proof, Sources, Conversations, Inbox, Spending, OfInstallation
):
    """Every call raises ApiError where the api refuses, and AwayError where it cannot answer now."""
